// What the map document says of the city, with the lookups that the page needs.

const FORMAT = 1

function middleOf(geometry) {
    let [west, south, east, north] = [Infinity, Infinity, -Infinity, -Infinity]
    const parts = geometry.type === "Polygon" ? [geometry.coordinates] : geometry.coordinates
    for (const part of parts) {
        for (const [lon, lat] of part[0]) {
            west = Math.min(west, lon)
            east = Math.max(east, lon)
            south = Math.min(south, lat)
            north = Math.max(north, lat)
        }
    }
    return { centre: [(west + east) / 2, (south + north) / 2], bounds: [west, south, east, north] }
}

/** Read the document: buildings with all columns, most probably damaged first, as the document has them. */
export function openCity(document) {
    if (document.format !== undefined && document.format !== FORMAT)
        throw new Error(`This page reads map documents of format ${FORMAT}; format ${document.format} found.`)
    const constants = document.constants ?? {}
    const features = document.buildings?.features ?? []
    const buildings = features.map((feature, index) => {
        const judged = feature.properties.status === "ok"
        const own = { ...(judged ? constants : { model_version: constants.model_version }), ...feature.properties }
        return Object.assign(own, { index, geometry: feature.geometry, judged, ...middleOf(feature.geometry) })
    })
    const byId = new Map(buildings.map(building => [String(building.building_id), building]))
    return { ...document, buildings, byId, points: document.points ?? [], overlays: document.overlays ?? [] }
}
