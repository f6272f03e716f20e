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

/** All columns of the predictions in their order, and the footprint as WKT in longitude and latitude. */
export function csvOf(columns, buildings) {
    const rows = buildings.map(building => [...columns.map(name => cell(building[name])), cell(wkt(building.geometry))])
    return [[...columns, "geometry"], ...rows].map(row => row.join(",")).join("\n") + "\n"
}

export function geojsonOf(columns, buildings) {
    const features = buildings.map(building => ({
        type: "Feature",
        geometry: building.geometry,
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
