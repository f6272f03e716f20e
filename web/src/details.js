// What is said of the chosen building.

import { charts, course, scatterersOf } from "./histories.js"
import { count, el, isolated, percent } from "./dom.js"
import { plan } from "./plan.js"

/** As `begins 2023-05 (2023-02 to 2023-08); grows by 0.4 permille a year (0.2 to 0.7)`. */
function overTime(building) {
    const month = name => building[name].slice(0, 7)
    const rate = name => building[name].toFixed(1)
    const parts = []
    if (building.begins) parts.push(`begins ${month("begins")} (${month("begins_early")} to ${month("begins_late")})`)
    if (typeof building.severity_rate === "number")
        parts.push(`grows by ${rate("severity_rate")} permille a year (${rate("severity_rate_low")} to ${rate("severity_rate_high")})`)
    if (building.p_accelerating > 0.5)
        parts.push(`faster in the last year than before (probability ${percent(building.p_accelerating)})`)
    return parts.join("; ")
}

function judgement(city, building) {
    const fixed = name => building[name].toFixed(1)
    const rows = [
        ["Burland category", `${building.burland_category}, ${city.categories[building.burland_category]}`],
        ["Severity", `${fixed("severity_permille")} permille (90 % interval ${fixed("severity_low")} to ${fixed("severity_high")})`],
        ["Damaged with probability", percent(building.p_damaged)],
    ]
    if (building.p_damaged >= 0.5) rows.push(["Quadrant", building.quadrants.replaceAll("|", " or ")])
    if (building.mechanism) rows.push(["Fails like", building.mechanism])
    if (building.cause) rows.push(["Near to", building.cause])
    const when = overTime(building)
    if (when) rows.push(["Over time", when])
    return rows
}

const signed = (value, digits = 1) => value.toFixed(digits).replace("-", "\u2212")

/** Motion of the building as a whole, each with its standard error. */
function whole(building) {
    const said = (name, unit) => `${signed(building[name])} ± ${building[name.replace(unit, `_std${unit}`)].toFixed(1)}`
    const rows = []
    if (Number.isFinite(building.settlement_mm))
        rows.push(["Settlement", `${said("settlement_mm", "_mm")} mm (${signed(building.settlement_rate_mm_year)} mm a year)`])
    if (Number.isFinite(building.tilt_mm_m))
        rows.push(["Tilt", `${said("tilt_mm_m", "_mm_m")} mm/m towards ${building.tilt_towards.toFixed(0)}°`])
    if (Number.isFinite(building.against_neighbours_mm))
        rows.push(["Against its neighbours", `${said("against_neighbours_mm", "_mm")} mm`])
    return rows
}

const share = value => Number((100 * value).toPrecision(2))

/** What was found of a cause of damage. */
export function causeNode(cause) {
    const rows = [
        ["Reach", `${cause.reach_m} m, ${cause.reach_given ? "as given" : "estimated"}`],
        ["Judged buildings within it", cause.judged_buildings.toLocaleString("en")],
        ["Damaged of them", `about ${share(cause.damage_rate)}\u00a0% (90\u00a0% interval ${share(cause.damage_rate_low)} to ${share(cause.damage_rate_high)}\u00a0%)`],
    ]
    if (!cause.counts) rows.splice(2, 1, ["Changes nothing", `its buildings share the ${share(cause.damage_rate)}\u00a0% of the others`])
    return el("div", { class: "details-body" }, el("h2", {}, isolated(cause.name)),
        el("dl", {}, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])))
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
        rows.push(...whole(building), ["Usable points", count(building.n_points, "point")])
        const width = Math.max(240, Math.min(360, node.clientWidth || 340) - 36)
        const drawn = charts(city, scatterers, width), strain = course(city, building, width)
        const missing = building.judged && city.histories?.left_out
            ? "This map has the histories of the most probably damaged buildings only."
            : "This map has no history for this building."
        body.replaceChildren(
            el("h2", {}, isolated(building.building_id)),
            el("dl", {}, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
            plan(building, scatterers),
            ...(strain ? [el("h3", {}, "Strain over time, permille, with its 90 % interval"), strain] : []),
            el("h3", {}, "Displacement of its scatterers, mm towards the satellite"),
            ...(drawn.length ? drawn : [el("p", { class: "quiet" }, missing)]))
        node.scrollTop = 0
    }
    return { node, show }
}
