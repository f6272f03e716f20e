// Which buildings are shown, and in which order. The map's own filter says the same as `matches`.

import { count, isolated } from "./dom.js"
import { shownQuadrants } from "./frame.js"

export const NO_FILTER = { category: "", status: "", quadrant: "", least: 0, most: 1, text: "" }

const STATUS = { judged: b => b.judged, abstained: b => !b.judged }

export function matches(filter, building) {
    if (filter.category !== "" && building.burland_category !== Number(filter.category)) return false
    if (filter.status !== "" && !(STATUS[filter.status]?.(building) ?? building.reason_group === filter.status)) return false
    if (filter.quadrant !== "" && !shownQuadrants(building).includes(filter.quadrant)) return false
    if (filter.least > 0 || filter.most < 1) {
        // A building without a probability is in no range.
        const { probability } = building
        if (probability === null || probability < filter.least || probability > filter.most) return false
    }
    return isNamed(filter.text, building)
}

const isNamed = (text, building) => text === "" || String(building.building_id).toLowerCase().includes(text.toLowerCase())

/** Why nothing is shown: the name is not there, or the other filters hide it. */
export function whyNone(filter, buildings) {
    const named = buildings.filter(building => isNamed(filter.text, building)).length
    if (!named) return `No building_id contains “${isolated(filter.text)}”.`
    return filter.text === "" ? "The filters hide all buildings."
        : `The filters hide ${count(named, "building")} with “${isolated(filter.text)}” in building_id.`
}

const number = value => value ?? -1

/** Orders of the list; in the first two, the buildings without that figure come last. */
export const ORDERS = {
    p_damaged: {
        label: "Most probably damaged first",
        before: (a, b) =>
            number(b.probability) - number(a.probability) || number(b.severity_permille) - number(a.severity_permille),
    },
    severity: {
        label: "Most severe first",
        before: (a, b) => number(b.severity_permille) - number(a.severity_permille),
    },
    id: {
        label: "By building_id",
        before: (a, b) => String(a.building_id).localeCompare(String(b.building_id), "en", { numeric: true }),
    },
}

export function choose(buildings, filter, order) {
    return buildings.filter(building => matches(filter, building)).sort((a, b) => ORDERS[order].before(a, b) || a.index - b.index)
}
