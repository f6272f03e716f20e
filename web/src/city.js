// What the map document says of the city, with the lookups that the page needs.

const FORMAT = 1

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

/** Read the document: buildings with all columns, most probably damaged first, as the document has them. */
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
        if (building.judged && "damage_rate" in constants) building.damage_rate = constants.damage_rate
        if ("model_version" in constants) building.model_version = constants.model_version
        placeOf(building)
        return building
    })
    const byId = new Map(buildings.map(building => [String(building.building_id), building]))
    return { ...document, buildings, byId, points: document.points ?? [], overlays: document.overlays ?? [] }
}
