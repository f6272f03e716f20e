// Zoomed out, buildings are counted in H3 hexagons: no building hides another, as dots would.

import { cellToBoundary, cellToLatLng, cellToParent, latLngToCell } from "h3-js"

/** Length of a hexagon's edge, m, by H3 resolution. */
const EDGE_M = { 4: 22606, 5: 8544, 6: 3229, 7: 1221, 8: 461, 9: 174 }
const FINEST = 9
/** Least width of a hexagon on the screen: its count must be readable. */
const LEAST_PX = 56
/** The city's share flagged is taken as no smaller and no larger than these: one flagged house in a quiet city is not dark. */
const SHARE_LIMITS = [0.1, 0.9]
/** The shares between two colours have the odds of the city's share, times these. */
const ODDS = [1 / 2, 1, 2, 4]
/** Above none, and below one of any number of buildings. */
const ANY = 1e-6

/** Shares flagged of a hexagon between two colours: the first is of those without any, the others are above or below the city's own
 * share, in whole percent. */
export function shareEdges(buildings) {
    const rated = buildings.filter(({ probability }) => probability !== null).length
    const share = buildings.filter(building => building.flagged).length / Math.max(rated, 1)
    const limited = Math.min(SHARE_LIMITS[1], Math.max(SHARE_LIMITS[0], share))
    return [ANY, ...ODDS.map(factor => (factor * limited) / (1 - limited)).map(odds => Math.round((100 * odds) / (1 + odds)) / 100)]
}

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
        const counts = cells.get(cell) ?? { all: 0, rated: 0, flagged: 0 }
        counts.all += 1
        counts.rated += building.probability !== null ? 1 : 0
        counts.flagged += building.flagged ? 1 : 0
        cells.set(cell, counts)
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

/** GeoJSON of the hexagons: `share` flagged of those with a probability (-1: none has one), counts, and a text. */
export function hexagons(buildings, resolution) {
    const features = [...tally(buildings, resolution)].map(([cell, counts]) => {
        return {
            type: "Feature",
            geometry: { type: "Polygon", coordinates: [cornersOf(cell)] },
            properties: {
                cell,
                share: counts.rated ? counts.flagged / counts.rated : -1,
                ...counts,
                text: counts.rated ? `${counts.flagged.toLocaleString("en")} of\n${counts.rated.toLocaleString("en")}` : "0 judged",
            },
        }
    })
    return { type: "FeatureCollection", features }
}
