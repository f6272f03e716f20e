// The legend: what colours and hatchings mean, and how many buildings there are of each.

import { CATEGORY, CAUSE, DIFFERS, HATCH, MEASURES, PROBABILITY, UNKNOWN, VELOCITY, hatchBackground, probabilityStep, scaleOf } from "./colours.js"
import { SHARES } from "./hexagons.js"
import { el } from "./dom.js"

const entry = (style, text, number) => el("li", {}, el("span", { class: "swatch", style, "aria-hidden": true }),
    number === undefined ? text : `${text}: ${number.toLocaleString("en")}`)

const solid = colour => `background: ${colour}`

function buildingEntries(city, shown, by) {
    const number = test => shown.filter(test).length
    const judged = by === "category"
        ? CATEGORY.map((colour, code) => entry(solid(colour), `${code} ${city.categories[code]}`,
            number(b => b.burland_category === code)))
        : PROBABILITY.map((colour, i) => entry(solid(colour), `${20 * i} to ${20 * i + 20} %`,
            number(b => b.judged && probabilityStep(b.p_damaged) === i)))
    const abstained = Object.entries(city.reason_groups ?? {}).map(([group, label]) =>
        entry(hatchBackground(HATCH[group]), label, number(b => b.reason === group)))
    return [...judged, ...abstained]
}

function measureEntries(city, by, look = "") {
    const { colours, edges } = scaleOf(city.buildings, by)
    const text = i => i === 0 ? `below ${edges[0]}` : i === edges.length ? `${edges[i - 1]} or more` : `${edges[i - 1]} to ${edges[i]}`
    return [...colours.map((colour, i) => entry(solid(colour) + look, text(i))), entry(solid(UNKNOWN) + look, "not known")]
}

const ROUND = "; border-radius: 50%"

function hexagonEntries() {
    const edges = [0, ...SHARES, 1].map(share => `${Math.round(100 * share)}`)
    return [...CATEGORY.map((colour, i) => entry(solid(colour), `${edges[i]} to ${edges[i + 1]} %`)),
        entry(solid("#dcdcdc"), "none judged")]
}

const pointEntries = limit => [
    ...VELOCITY.map((colour, i) => entry(solid(colour) + ROUND,
        i === 0 ? `≤\u2212${limit.toFixed(0)}` : i === 6 ? `≥${limit.toFixed(0)}` : i === 3 ? "0" : "")),
    entry(solid(UNKNOWN) + ROUND, "unknown")]

const part = (title, entries) => el("section", {}, el("h3", {}, title), el("ul", {}, entries))

function scale({ legend, name }) {
    const { colours = [], least, most, unit = "" } = legend ?? {}
    return el("section", {}, el("h3", {}, `${name}${unit && `, ${unit}`}`),
        el("div", { class: "scale", style: `background: linear-gradient(to right, ${colours.join(", ")})` }),
        el("p", { class: "scale-ends" }, el("span", {}, String(least ?? "")), el("span", {}, String(most ?? ""))))
}

/** Whether the window has room for the legend beside the city. */
export const wide = () => innerWidth > 800 && innerHeight > 480

export function createLegend(city) {
    const body = el("div")
    const node = el("details", { class: "legend", open: wide() }, el("summary", {}, "Legend"), body)
    function show({ shown, by, far, points, causes, levelling, overlay }) {
        body.replaceChildren(
            ...(city.buildings.length === 0 ? [] : [far
                ? part("Share with a probability of damage of 50 % or more, of those judged", hexagonEntries())
                : by in MEASURES ? part(MEASURES[by].label, measureEntries(city, by))
                    : part(by === "category" ? "Burland category, by strain; what is seen is often one lower" : "Probability of damage", buildingEntries(city, shown, by))]),
            ...(causes ? [part("Causes of damage", [entry(solid(CAUSE), "more damage near to it"), entry(solid(UNKNOWN), "changes nothing")])] : []),
            ...(levelling ? [part("Settlement by levelling, mm, on the radar's datum", [...measureEntries(city, "settlement_mm", ROUND),
                entry(`background: #fff; border: 3px solid ${DIFFERS}${ROUND}`, "building differs from the radar")])] : []),
            ...(points ? [part("Mean velocity, mm/yr, towards the satellite", pointEntries(city.velocity_limit))] : []),
            ...(overlay ? [scale(overlay)] : []))
        body.lastChild?.classList.toggle("inline", points && !overlay)
    }
    return { node, show }
}
