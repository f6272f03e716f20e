// Zoomed out, buildings are counted in H3 hexagons: no building hides another, as dots would.

import { cellToBoundary, cellToLatLng, cellToParent, latLngToCell } from "h3-js"

/** Length of a hexagon's edge, m, by H3 resolution. */
const EDGE_M = { 4: 22606, 5: 8544, 6: 3229, 7: 1221, 8: 461, 9: 174 }
const FINEST = 9
/** Least width of a hexagon on the screen: its count must be readable. */
const LEAST_PX = 56
/** From this probability on, a building counts as flagged. */
export const FLAGGED = 0.5
/** Bounds of the share flagged between the five colours. */
export const SHARES = [0.01, 0.05, 0.1, 0.25]

export const metresPerPixel = (zoom, lat) => (78271.517 * Math.cos((lat * Math.PI) / 180)) / 2 ** zoom

export function resolutionAt(zoom, lat) {
    const scale = metresPerPixel(zoom, lat)
    const fits = Object.keys(EDGE_M).map(Number).filter(resolution => (2 * EDGE_M[resolution]) / scale >= LEAST_PX)
    return fits.length ? Math.min(FINEST, Math.max(...fits)) : Math.min(...Object.keys(EDGE_M).map(Number))
}

/** A longitude of the city: near to it, longitudes go on beyond 180 degrees. */
let about = 0
const near = lon => lon - 360 * Math.round((lon - about) / 360)
const cornersOf = cell => cellToBoundary(cell, true).map(([lon, lat]) => [near(lon), lat])
const middleOf = cell => [near(cellToLatLng(cell)[1]), cellToLatLng(cell)[0]]

/** Give each building its cell of the finest resolution, once. */
export function assignCells(buildings) {
    about = buildings[0]?.centre[0] ?? 0
    for (const building of buildings) building.cell = latLngToCell(building.centre[1], building.centre[0], FINEST)
}

/** West, south, east and north of all hexagons. */
export function boundsOf(buildings, resolution) {
    const cells = [...new Set(buildings.map(({ cell }) => cell))]
    const corners = [...new Set(cells.map(cell => parentOf(cell, resolution)))].flatMap(cornersOf)
    const [lons, lats] = [0, 1].map(axis => corners.map(corner => corner[axis]))
    return [Math.min(...lons), Math.min(...lats), Math.max(...lons), Math.max(...lats)]
}

const parentOf = (cell, resolution) => (resolution === FINEST ? cell : cellToParent(cell, resolution))

function tally(buildings, resolution) {
    const cells = new Map()
    const parents = new Map()
    for (const building of buildings) {
        let cell = parents.get(building.cell)
        if (cell === undefined) {
            cell = parentOf(building.cell, resolution)
            parents.set(building.cell, cell)
        }
        const own = cells.get(cell) ?? { all: 0, judged: 0, flagged: 0 }
        own.all += 1
        own.judged += building.judged ? 1 : 0
        own.flagged += building.judged && building.p_damaged >= FLAGGED ? 1 : 0
        cells.set(cell, own)
    }
    return cells
}

/** The middles of hexagons, for their texts: a hexagon on the edge of two tiles would get one in each. */
export const middles = ({ features }) => ({
    type: "FeatureCollection",
    features: features.map(({ properties }) => ({
        type: "Feature",
        geometry: { type: "Point", coordinates: middleOf(properties.cell) },
        properties,
    })),
})

/** GeoJSON of the hexagons: `share` flagged of those judged (-1: none was judged), counts, and a text. */
export function hexagons(buildings, resolution) {
    const features = [...tally(buildings, resolution)].map(([cell, { all, judged, flagged }]) => {
        return {
            type: "Feature",
            geometry: { type: "Polygon", coordinates: [cornersOf(cell)] },
            properties: {
                cell,
                share: judged ? flagged / judged : -1,
                all,
                judged,
                flagged,
                text: judged ? `${flagged.toLocaleString("en")} of\n${judged.toLocaleString("en")}` : "0 judged",
            },
        }
    })
    return { type: "FeatureCollection", features }
}
