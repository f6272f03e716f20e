// What is said of the chosen building, or of the chosen point.

import { alone, charts, course, historiesCsv, scatterersOf, seriesOf } from "./histories.js"
import { hasSeverity, isAlongSight } from "./city.js"
import { button, count, el, isolated, percent, permille, plusMinus, signed } from "./dom.js"
import { cell, save } from "./exports.js"
import { shownQuadrants } from "./frame.js"
import { plan } from "./plan.js"

/** What is known of damage; of a building that is not judged, with the reason. */
function judgement(city, building) {
    const rows = []
    if (!building.judged && !building.unsureWhere) rows.push(["Not judged", building.why ?? building.status])
    if (building.probability !== null) {
        const text = percent(building.probability)
        rows.push(building.judged || building.unsureWhere ? ["Damaged with probability", text] : ["Probability of damage", `${text}, not a judgement`])
    }
    if (building.unsureWhere) rows.push(["Where", `is not known: ${building.why ?? building.reason}`])
    const names = shownQuadrants(building)
    if (names.length) rows.push(["Quadrant", names.join(" or ")])
    if (hasSeverity(building)) rows.push(...severity(city, building))
    if (building.mechanism) rows.push(["Fails like", building.mechanism])
    if (building.cause) rows.push(["Near to", building.cause])
    if (building.when) rows.push(["Over time", building.when])
    return rows
}

function severity(city, building) {
    const fixed = name => permille(building[name], city.permille)
    const rows = [
        ["Severity", `${fixed("severity_permille")} permille (90\u00a0% interval ${fixed("severity_low")} to ${fixed("severity_high")})`],
        ["Burland category", `${building.burland_category}, ${city.categories[building.burland_category]}`],
    ]
    // The median is in category 1 or above, and the interval below it.
    if (building.flagged && building.severity_low < city.permille.bounds[0])
        rows.push(["Decide by", "the probability, not by the category: the points also fit a sound building"])
    return rows
}

/** Motion of the building as a whole, each with its 90 % interval. */
function whole(building) {
    const figure = (name, std, unit) => `${signed(building[name])} ${plusMinus(building[std], unit)}`
    const rows = []
    if (Number.isFinite(building.settlement_mm)) {
        const along = isAlongSight(building) ? ", along one line of sight, not vertical" : ""
        rows.push(["Settlement", `${figure("settlement_mm", "settlement_std_mm", "mm")}${along}; ${signed(building.settlement_rate_mm_year)} mm a year`])
    }
    const towards = Number.isFinite(building.tilt_towards) ? ` towards ${building.tilt_towards.toFixed(0)}°` : ""
    if (Number.isFinite(building.tilt_mm_m)) rows.push(["Tilt", `${figure("tilt_mm_m", "tilt_std_mm_m", "mm/m")}${towards}`])
    if (Number.isFinite(building.against_neighbours_mm))
        rows.push(["Against its neighbours", figure("against_neighbours_mm", "against_neighbours_std_mm", "mm")])
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
    return el("div", { class: "details-body" }, el("h2", {}, isolated(cause.name)), listed(rows))
}

/** What levelling says of a point, and both of its building. */
export function levelledNode(point) {
    const rows = [["Building", isolated(point.building_id || "none")]]
    const add = (label, name) => Number.isFinite(point[`${name}_mm`])
        && rows.push([label, `${signed(point[`${name}_mm`])} ${plusMinus(point[`${name}_std_mm`], "mm")}`])
    add("This point by levelling", "change")
    add("Its building by levelling", "levelled_settlement")
    add("Its building by radar", "settlement")
    if (add("Difference", "settlement_difference"))
        rows.at(-1)[1] += point.settlement_agrees ? ", the two agree" : ", the two differ"
    if (Number.isFinite(point.datum_mm)) rows.push(["Taken off the radar", `${signed(point.datum_mm)} mm, the median of all`])
    if (!point.is_used) rows.push(["Not compared", "it is of no building, or was not levelled at both ends"])
    return el("div", { class: "details-body" }, el("h2", {}, isolated(point.point)), listed(rows))
}

const listed = rows => el("dl", {}, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]))

/** Charts of the points `own` with their file; or `missing`, in words. */
function history(city, own, width, missing, name) {
    const drawn = charts(city, own, width)
    const file = () => save(`${name.replace(/[^\p{L}\p{N}]+/gu, "-")}.csv`, "text/csv", historiesCsv(city, own, cell))
    return [el("h3", {}, "Displacement, mm towards the satellite"),
        ...(drawn.length ? [...drawn, button("CSV", file, "Save these histories as CSV")] : [el("p", { class: "quiet" }, missing)])]
}

export function createDetails(city, close) {
    const body = el("div", { class: "details-body", "aria-live": "polite" })
    const node = el("aside", { class: "details", "aria-label": "The chosen building", hidden: true },
        el("button", { class: "close", type: "button", "aria-label": "Close", onclick: close }, "×"), body)
    const few = "This map has the histories of the most probably damaged buildings only."
    const none = "This map does not have the history of this point. It has those of the most probably damaged buildings."

    function fill(make) {
        node.hidden = false
        body.replaceChildren(...make(Math.max(240, Math.min(360, node.clientWidth || 340) - 36)))
        node.scrollTop = 0
    }

    function show(building) {
        if (building === null) {
            node.hidden = true
            return body.replaceChildren()
        }
        const scatterers = scatterersOf(city, building)
        const rows = [...judgement(city, building), ...whole(building), ["Usable points", count(building.n_points, "point")]]
        const missing = city.histories?.left_out ? few : "No point is on it or beside it."
        fill(width => {
            const strain = course(city, building, width)
            return [el("h2", {}, isolated(building.building_id)), listed(rows), plan(building, scatterers),
                ...(strain ? [el("h3", {}, "Strain over time, permille, with its 90 % interval"), strain] : []),
                ...history(city, scatterers, width, missing, String(building.building_id))]
        })
    }

    /** Show point `dot` of those drawn of a track. */
    function showPoint(track, dot) {
        const { track: name, velocity } = city.points[track]
        const own = seriesOf(city, track, dot)
        const rate = velocity[dot] === null ? "unknown" : `${signed(velocity[dot])} mm a year towards the satellite`
        fill(width => [el("h2", {}, isolated(own?.id ?? "A point")), listed([["Track", isolated(name)], ["Mean velocity", rate]]),
            ...history(city, own ? [alone(own)] : [], width, none, own?.id ?? "")])
    }
    return { node, show, showPoint }
}
