// The legend: what colours and hatchings mean, and how many buildings there are of each.

import { CATEGORY, CAUSE, DIFFERS, FAINT, HATCH, MEASURES, SHARE, UNKNOWN, VELOCITY, hatchBackground, holdsZero, measureStep,
    scaleOf } from "./colours.js"
import { isAlongSight } from "./city.js"
import { shareEdges } from "./hexagons.js"
import { el } from "./dom.js"
import { shownQuadrants } from "./frame.js"

const entry = (style, text, number) => el("li", {}, el("span", { class: "swatch", style, "aria-hidden": true }),
    number === undefined ? text : `${text}: ${number.toLocaleString("en")}`)

const solid = colour => `background: ${colour}`

/** The words of each class between these values, written by `text`, and their unit. */
const classes = (edges, text, unit = "") => [...edges, null].map((edge, i) => {
    if (i === 0) return edge === null ? "all" : `below ${text(edge)}${unit}`
    return edge === null ? `${text(edges[i - 1])}${unit} or more` : `${text(edges[i - 1])} to ${text(edge)}${unit}`
})

const inPercent = share => String(Math.round(100 * share))

/** How many buildings are in each class; `step(building)`: number of its class, negative in none. */
function countSteps(buildings, number, step) {
    const counts = Array(number).fill(0)
    for (const building of buildings) {
        const i = step(building)
        if (i >= 0) counts[i] += 1
    }
    return counts
}

/** A footprint with one dark quarter. */
const QUARTER = "background: linear-gradient(#333, #333) top right / 50% 50% no-repeat, #fff"

function buildingEntries(city, shown, by) {
    const number = test => shown.filter(test).length
    const probability = city.probability_classes
    const [colours, texts, step] = by === "category"
        ? [CATEGORY, CATEGORY.map((_, code) => `${code} ${city.categories[code]}`), building => building.burland_category ?? -1]
        : [probability.colours, probability.names, building => (building.probability === null ? -1 : measureStep(building.probability, probability))]
    const counts = countSteps(shown, colours.length, step)
    const abstained = Object.entries(city.reason_groups ?? {}).map(([group, label]) =>
        entry(hatchBackground(HATCH[group]), label, number(building => building.reason_group === group)))
    return [...colours.map((colour, i) => entry(solid(colour), texts[i], counts[i])),
        entry(QUARTER, `where damage may be: the darker, the more probable (from ${inPercent(city.flagged)} % on)`,
            number(building => shownQuadrants(building).length > 0)),
        ...abstained]
}

/** Classes of a measure, with counts of the buildings `shown`, if given. */
function measureEntries(city, by, shown = null, look = "") {
    const scale = scaleOf(city.buildings, by)
    const share = by === "damage_rate"
    const text = edge => String(share ? Number((100 * edge).toPrecision(12)) : edge).replace("-", "\u2212")
    const counts = shown && countSteps(shown, scale.colours.length, building => (Number.isFinite(building[by]) ? measureStep(building[by], scale) : -1))
    const number = test => shown?.filter(test).length
    const texts = classes(scale.edges, text, share ? " %" : "")
    const { std, low } = MEASURES[by]
    const alongSight = by === "settlement_mm" && shown ? number(isAlongSight) : 0
    return [...scale.colours.map((colour, i) => entry(solid(colour) + look, texts[i], counts?.[i])),
        ...(shown && (std || low) ? [entry(`${solid(scale.colours.at(-1))}; opacity: ${FAINT}`, "faint: the 90 % interval holds 0", number(building => holdsZero(building, by)))] : []),
        entry(solid(UNKNOWN) + look, "not known", number(building => !Number.isFinite(building[by]))),
        ...(alongSight ? [el("li", {}, `Along one line of sight, not vertical: ${alongSight.toLocaleString("en")}`)] : [])]
}

const ROUND = "; border-radius: 50%"

function hexagonEntries(city) {
    const texts = ["none", ...classes(shareEdges(city.buildings).slice(1), inPercent, " %")]
    return [...SHARE.map((colour, i) => entry(solid(colour), texts[i])), entry(solid("#dcdcdc"), "none has a probability")]
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

const overlap = (rectangle, [left, top, right, bottom]) =>
    rectangle.left < right && rectangle.right > left && rectangle.top < bottom && rectangle.bottom > top

/** `opened()` is called when the user opens or folds the legend. */
export function createLegend(city, opened) {
    const body = el("div")
    let wanted = wide()
    const node = el("details", { class: "legend", open: wanted }, el("summary", { onclick: event => {
        event.preventDefault()
        wanted = !node.open
        node.open = wanted
        opened()
    } }, "Legend"), body)

    /** Where the legend may be on the map: as the user wants it in either corner, then folded. */
    const places = () => [[wanted, false], [wanted, true], [false, false], [false, true]]

    function put([open, atTop]) {
        node.open = open
        node.classList.toggle("at-top", atTop)
    }

    /** Put the legend where it does not cover a box in the window (left, top, right, bottom, px): else folded, and at last nowhere. */
    function avoid(box) {
        node.hidden = false
        const free = places().some(place => {
            put(place)
            return box === null || !overlap(node.getBoundingClientRect(), box)
        })
        node.hidden = !free
    }
    function show({ shown, by, far, points, causes, levelling, overlay }) {
        body.replaceChildren(
            ...(city.buildings.length === 0 ? [] : [far
                ? part(`Share with a probability of damage of ${inPercent(city.flagged)} % or more`, hexagonEntries(city))
                : by in MEASURES ? part(MEASURES[by].label, measureEntries(city, by, shown))
                    : part(by === "category" ? "Burland category, by strain; what is seen is often one lower" : "Probability of damage", buildingEntries(city, shown, by))]),
            ...(causes ? [part("Causes of damage", [entry(solid(CAUSE), "more damage near to it"), entry(solid(UNKNOWN), "changes nothing")])] : []),
            ...(levelling ? [part("Settlement by levelling, mm, on the radar's datum", [...measureEntries(city, "settlement_mm", null, ROUND),
                entry(`background: #fff; border: 3px solid ${DIFFERS}${ROUND}`, "building differs from the radar")])] : []),
            ...(points ? [part("Mean velocity, mm/yr, towards the satellite", pointEntries(city.velocity_limit))] : []),
            ...(overlay ? [scale(overlay)] : []))
        body.lastChild?.classList.toggle("inline", points && !overlay)
    }
    return { node, show, avoid }
}
