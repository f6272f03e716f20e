// What is said of the chosen building.

import { charts, scatterersOf } from "./histories.js"
import { count, el, isolated, percent } from "./dom.js"
import { plan } from "./plan.js"

function judgement(city, building) {
    const fixed = name => building[name].toFixed(1)
    const rows = [
        ["Burland category", `${building.burland_category}, ${city.categories[building.burland_category]}`],
        ["Severity", `${fixed("severity_permille")} permille (90 % interval ${fixed("severity_low")} to ${fixed("severity_high")})`],
        ["Damaged with probability", percent(building.p_damaged)],
    ]
    if (building.p_damaged >= 0.5) rows.push(["Quadrant", building.quadrants.replaceAll("|", " or ")])
    if (building.mechanism) rows.push(["Fails like", building.mechanism])
    return rows
}

export function createDetails(city, close) {
    const body = el("div", { class: "details-body", "aria-live": "polite" })
    const node = el("aside", { class: "details", "aria-label": "The chosen building", hidden: true },
        el("button", { class: "close", type: "button", "aria-label": "Close", onclick: close }, "×"), body)

    function show(building) {
        node.hidden = building === null
        if (building === null) return body.replaceChildren()
        const scatterers = scatterersOf(city, building)
        const rows = building.judged ? judgement(city, building) : [["Not judged", building.why ?? building.status]]
        rows.push(["Usable points", count(building.n_points, "point")])
        const drawn = charts(city, scatterers, Math.max(240, Math.min(360, node.clientWidth || 340) - 36))
        const missing = building.judged && city.histories?.left_out
            ? "This map has the histories of the most probably damaged buildings only."
            : "This map has no history for this building."
        body.replaceChildren(
            el("h2", {}, isolated(building.building_id)),
            el("dl", {}, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
            plan(building, scatterers),
            el("h3", {}, "Displacement of its scatterers, mm towards the satellite"),
            ...(drawn.length ? drawn : [el("p", { class: "quiet" }, missing)]))
        node.scrollTop = 0
    }
    return { node, show }
}
