// The controls above the map: colours, filters, order, points, field layers, and files of what is shown.

import { MEASURES } from "./colours.js"
import { button, checkbox, el, select } from "./dom.js"
import { ORDERS } from "./filter.js"

const QUADRANTS = ["NE", "NW", "SW", "SE"]

function probabilityRange(state, change) {
    const field = (name, label) => {
        const input = el("input", { type: "number", min: 0, max: 100, step: 5, value: Math.round(100 * state.filter[name]),
            "aria-label": label, onchange: () => {
                const share = input.value === "" ? { least: 0, most: 1 }[name] : Number(input.value) / 100
                input.value = Math.round(100 * Math.min(1, Math.max(0, share)))
                change({ [name]: Number(input.value) / 100 })
            } })
        return input
    }
    return el("fieldset", { class: "field range" }, el("legend", {}, "Probability, %"),
        field("least", "Least probability of damage, %"), " to ", field("most", "Greatest probability of damage, %"))
}

/** Controls that a narrow window folds behind a button. */
export function foldedControls(...controls) {
    const group = el("div", { class: "folded" }, ...controls)
    const unfold = button("Filters", () => unfold.setAttribute("aria-expanded", String(group.classList.toggle("unfolded"))), "Filters and layers")
    unfold.classList.add("unfold")
    unfold.setAttribute("aria-expanded", "false")
    return [unfold, group]
}

export function searchControl(state, change) {
    const text = el("input", { type: "search", value: state.filter.text, placeholder: "building_id", "aria-label": "Search by building_id",
        oninput: () => change({ text: text.value.trim() }) })
    return el("label", { class: "field" }, el("span", {}, "Search"), text)
}

export function filterControls(city, state, change) {
    const { filter } = state
    const categories = city.categories.map((name, code) => [String(code), `${code} ${name}`])
    const reasons = Object.entries(city.reason_groups ?? {}).map(([group, label]) => [group, `abstained: ${label}`])
    const all = [["", "all"]]
    return [
        select("Category", [...all, ...categories], filter.category, category => change({ category })),
        select("Status", [...all, ["judged", "judged"], ["abstained", "abstained"], ...reasons], filter.status,
            status => change({ status })),
        select("Quadrant", [...all, ...QUADRANTS.map(name => [name, name])], filter.quadrant, quadrant => change({ quadrant })),
        probabilityRange(state, change),
    ]
}

export const orderControl = (state, change) =>
    select("Order", Object.entries(ORDERS).map(([key, { label }]) => [key, label]), state.order, change)

export function colourControl(city, state, change) {
    const differs = name => new Set(city.buildings.map(building => building[name]).filter(Number.isFinite)).size > 1
    const measures = Object.entries(MEASURES).filter(([name]) => differs(name))
    return select("Colours", [["p_damaged", "Probability of damage"], ["category", "Burland category"],
        ...measures.map(([name, { label }]) => [name, label])], state.by, change)
}

export function pointControls(city, change, showLayer) {
    const layers = Object.entries({ areas: "Moving areas", causes: "Causes", levelling: "Levelled points" })
        .map(([name, label]) => [name, label, city[name]?.features.length]).filter(([, , number]) => number)
    if (!layers.length && !city.points.some(({ lon }) => lon.length)) return null
    return el("details", { class: "menu" }, el("summary", {}, "Points"),
        el("div", {}, city.points.map(({ track, lon }, i) =>
            checkbox(`${track} (${lon.length.toLocaleString("en")})`, false, on => change(i, on))),
        layers.map(([name, label, number]) => checkbox(`${label} (${number.toLocaleString("en")})`, false, on => showLayer(name, on)))))
}

export function overlayControls(city, state, change) {
    if (!city.overlays.length) return null
    const layers = [["-1", "none"], ...city.overlays.map(({ name }, i) => [String(i), name])]
    const opacity = el("input", { type: "range", min: 0, max: 1, step: 0.05, value: state.opacity, "aria-label": "Opacity of the field",
        oninput: () => change(state.overlay, Number(opacity.value)) })
    return [select("Field", layers, String(state.overlay), value => change(Number(value), state.opacity)),
        el("label", { class: "field" }, el("span", {}, "Opacity"), opacity)]
}

export const exportControls = save => el("div", { class: "exports", role: "group", "aria-label": "Save what is shown" },
    button("CSV", () => save("csv"), "Save the shown buildings as CSV"),
    button("GeoJSON", () => save("geojson"), "Save the shown buildings as GeoJSON"))
