// Files of the buildings that are shown, made in the browser.

export const cell = value => {
    if (value === null || value === undefined) return ""
    const text = String(value)
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

const ring = points => `(${points.map(([lon, lat]) => `${lon} ${lat}`).join(", ")})`
const polygon = rings => `(${rings.map(ring).join(", ")})`

export const wkt = ({ type, coordinates }) =>
    type === "Polygon" ? `POLYGON ${polygon(coordinates)}` : `MULTIPOLYGON (${coordinates.map(polygon).join(", ")})`

const TURN = 360
const at180 = ([lonA, latA], [lonB, latB]) => [180, latA + ((latB - latA) * (180 - lonA)) / (lonB - lonA)]

/** The part of a ring on one side of 180 degrees (Sutherland and Hodgman); [] if none of it is there. */
function side(ring, isThere) {
    const found = []
    ring.slice(1).forEach((place, i) => {
        if (isThere(ring[i]) !== isThere(place)) found.push(at180(ring[i], place))
        if (isThere(place)) found.push(place)
    })
    return found.length > 2 ? [...found, found[0]] : []
}

const hasGround = ring => ring.some(([lon]) => Math.abs(lon) !== 180)

/** A footprint of a city across 180 degrees, whose longitudes go on beyond, cut there as RFC 7946 (3.1.9) asks. A hole on both
sides then shares an edge with its outline. */
export function within180(geometry) {
    const polygons = geometry.type === "Polygon" ? [geometry.coordinates] : geometry.coordinates
    if (!polygons.flat(2).some(([lon]) => lon > 180)) return geometry
    const cut = [
        [([lon]) => lon <= 180, place => place],
        [([lon]) => lon >= 180, ([lon, lat]) => [Math.round((lon - TURN) * 1e7) / 1e7, lat]],
    ].flatMap(([isThere, move]) => polygons.map(rings => rings.map(ring => side(ring, isThere).map(move))))
    const left = cut.filter(rings => hasGround(rings[0])).map(rings => rings.filter(hasGround))
    return left.length === 1 ? { type: "Polygon", coordinates: left[0] } : { type: "MultiPolygon", coordinates: left }
}

/** All columns of the predictions in their order, and the footprint as WKT in longitude and latitude. */
export function csvOf(columns, buildings) {
    const rows = buildings.map(building => [...columns.map(name => cell(building[name])), cell(wkt(within180(building.geometry)))])
    return [[...columns, "geometry"], ...rows].map(row => row.join(",")).join("\n") + "\n"
}

export function geojsonOf(columns, buildings) {
    const features = buildings.map(building => ({
        type: "Feature",
        geometry: within180(building.geometry),
        properties: Object.fromEntries(columns.map(name => [name, building[name] ?? null])),
    }))
    return JSON.stringify({ type: "FeatureCollection", features })
}

export function save(name, type, text) {
    const link = document.createElement("a")
    link.href = URL.createObjectURL(new Blob([text], { type }))
    link.download = name
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 10000)
}
