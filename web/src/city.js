// What the map document says of the city, with the lookups that the page needs.

const FORMAT = 3

/** Whether severity and category of a building are known. */
export const hasSeverity = building => Number.isFinite(building.severity_permille)

/** Whether a settlement is one along the line of sight of one track. */
export const isAlongSight = building => (building.settlement_direction ?? "").includes("line of sight")

/** Add the middle of the footprint's bounding box. */
function placeOf(building) {
    const { type, coordinates } = building.geometry
    let [west, south, east, north] = [Infinity, Infinity, -Infinity, -Infinity]
    const parts = type === "Polygon" ? [coordinates] : coordinates
    for (const part of parts) {
        for (const [lon, lat] of part[0]) {
            west = Math.min(west, lon)
            east = Math.max(east, lon)
            south = Math.min(south, lat)
            north = Math.max(north, lat)
        }
    }
    building.centre = [(west + east) / 2, (south + north) / 2]
}

/** Read the document: buildings with all columns.
 *
 * Of a building, `judged` is whether its status is ok, `probability` that it is damaged (judged or not; null where the model was not
 * asked), `flagged` whether that is high enough for its quadrants to be shown, and `unsureWhere` whether the points do not show which
 * quadrant is damaged. */
export function openCity(document) {
    if (document.format !== undefined && document.format !== FORMAT)
        throw new Error(`This page reads map documents of format ${FORMAT}; format ${document.format} found.`)
    const constants = document.constants ?? {}
    const features = document.buildings?.features ?? []
    const buildings = features.map((feature, index) => {
        // The document's own objects are filled: 50,000 copies would take a second.
        const building = feature.properties
        building.index = index
        building.geometry = feature.geometry
        building.judged = building.status === "ok"
        building.probability = building.p_damaged ?? null
        building.flagged = building.probability !== null && building.probability >= document.flagged
        building.unsureWhere = building.reason_group === "unsure"
        if (hasSeverity(building) && "damage_rate" in constants) building.damage_rate = constants.damage_rate
        if ("model_version" in constants) building.model_version = constants.model_version
        placeOf(building)
        return building
    })
    const byId = new Map(buildings.map(building => [String(building.building_id), building]))
    return { ...document, buildings, byId, points: document.points ?? [], overlays: document.overlays ?? [] }
}
