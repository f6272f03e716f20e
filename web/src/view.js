// The map with its list, legend and details, of one map document.

import { createMap } from "./map.js"
import { createDetails } from "./details.js"
import { createLegend } from "./legend.js"
import { createList } from "./list.js"
import { openCity } from "./city.js"
import { DEFAULT_COLOURS } from "./colours.js"
import { colourControl, exportControls, filterControls, foldedControls, orderControl, overlayControls, pointControls, searchControl } from "./controls.js"
import { button, count, el } from "./dom.js"
import { csvOf, geojsonOf, save } from "./exports.js"
import { NO_FILTER, choose, whyNone } from "./filter.js"
import { readLink, writeLink } from "./link.js"

const WAIT_MS = 120

/** A building has this room beside the legend at least, px; else the legend gives way. */
const LEAST_ROOM_PX = 160

/** How much of the map the details cover at the right and the legend at the left, px; in a narrow window, none. */
function coveredBy(details, legend, holder) {
    const right = details.offsetTop < holder.offsetTop + holder.offsetHeight ? details.offsetWidth : 0
    const left = isOverMap(legend) && legend.open ? legend.offsetLeft + legend.offsetWidth : 0
    return { right, left: holder.offsetWidth - right - left < LEAST_ROOM_PX ? 0 : left }
}

const isOverMap = legend => getComputedStyle(legend).position === "absolute"

/** Show the document in `root`; `more` are further elements of the header, as links to results. */
export function showMap(root, document_, more = []) {
    const city = openCity({ categories: [], columns: [], ...document_ })
    const link = readLink()
    const state = { filter: { ...NO_FILTER }, order: "p_damaged", by: DEFAULT_COLOURS, shown: city.buildings, chosen: null,
        points: new Set(), areas: false, causes: false, levelling: false, overlay: city.overlays.length && !city.buildings.length ? 0 : -1, opacity: 0.8 }

    const counted = el("p", { class: "counted", role: "status" })
    const none = el("p", { class: "none", role: "status" })
    const list = createList(city, building => pick(building, true))
    const details = createDetails(city, () => pick(null, false))
    const legend = createLegend(city, legendOpened)
    const canvas = el("div", { class: "map" })
    const holder = el("div", { class: "map-holder" }, canvas, legend.node)
    const hasBuildings = city.buildings.length > 0
    const layerControls = [pointControls(city, showPoints, showLayer), overlayControls(city, state, showOverlay),
        button("Whole city", () => view.showAll?.(), "Show the whole city")]
    root.className = hasBuildings ? "viewer" : "viewer without-list"
    root.replaceChildren(
        el("header", {}, el("h1", {}, city.title ?? "Plumbline"), el("p", {}, city.subtitle ?? ""), ...more),
        el("div", { class: "controls", role: "toolbar", "aria-label": "Controls of the map" },
            hasBuildings ? [colourControl(city, state, colour), searchControl(state, refilter),
                foldedControls(filterControls(city, state, refilter), layerControls)] : layerControls),
        el("main", {}, hasBuildings && el("section", { class: "side", "aria-label": "List of buildings" },
            el("div", { class: "side-head" }, counted, none, orderControl(state, reorder), exportControls(saveShown)), list.node), holder, details.node),
        el("footer", {}, el("p", {}, city.footer ?? "")))

    let view = {}
    try {
        view = createMap(canvas, city, link.at, { choose: building => pick(building, false), choosePoint: pickPoint, move: moved, far: () => drawLegend() })
    } catch (error) {
        canvas.append(el("p", { class: "problem", role: "alert" },
            `The map cannot be drawn: this browser has no WebGL (${error.message}). The list works without it.`))
    }
    function drawLegend() {
        legend.show({ shown: state.shown, by: state.by, far: view.far?.() ?? false, points: state.points.size > 0 || state.areas,
            causes: state.causes, levelling: state.levelling, overlay: city.overlays[state.overlay] })
        keepLegendAway()
    }

    function moved(center, zoom) {
        writeLink(center, zoom, state.chosen?.building_id)
        drawLegend()
    }

    function pick(building, go) {
        state.chosen = building
        details.show(building)
        list.mark(building)
        view.mark?.(building?.geometry)
        if (building && go) goTo(building)
        else keepLegendAway()
        if (view.map) writeLink(view.map.getCenter(), view.map.getZoom(), building?.building_id)
    }

    function goTo(building) {
        if (isOverMap(legend.node)) legend.avoid(null)
        view.goTo?.(building, coveredBy(details.node, legend.node, holder))
    }

    /** The legend never covers the chosen building: it moves, or folds. */
    function keepLegendAway() {
        if (isOverMap(legend.node)) legend.avoid(state.chosen && view.map ? view.boxOf(state.chosen) : null)
    }

    /** A legend that the user opens stays open: the chosen building moves out of its way. */
    function legendOpened() {
        if (state.chosen && legend.node.open && isOverMap(legend.node)) goTo(state.chosen)
        else keepLegendAway()
    }

    function pickPoint(track, dot) {
        pick(null, false)
        details.showPoint(track, dot)
        view.mark?.({ type: "Point", coordinates: [city.points[track].lon[dot], city.points[track].lat[dot]] })
    }

    function update() {
        state.shown = choose(city.buildings, state.filter, state.order)
        list.show(state.shown, state.chosen)
        none.textContent = state.shown.length || !hasBuildings ? "" : whyNone(state.filter, city.buildings)
        counted.textContent = state.shown.length === city.buildings.length
            ? count(city.buildings.length, "building")
            : `${state.shown.length.toLocaleString("en")} of ${count(city.buildings.length, "building")}`
        drawLegend()
    }

    let waiting = null
    function refilter(part) {
        Object.assign(state.filter, part)
        clearTimeout(waiting)
        waiting = setTimeout(() => {
            update()
            view.show?.(state.shown)
        }, WAIT_MS)
    }

    function reorder(order) {
        state.order = order
        update()
    }

    function colour(by) {
        state.by = by
        list.colour(by)
        view.colour?.(by)
        drawLegend()
    }

    function showPoints(track, on) {
        state.points[on ? "add" : "delete"](track)
        view.points?.(track, on)
        drawLegend()
    }

    function showLayer(name, on) {
        state[name] = on
        view[name]?.(on)
        drawLegend()
    }

    function showOverlay(overlay, opacity) {
        Object.assign(state, { overlay, opacity })
        view.overlay?.(overlay, opacity)
        drawLegend()
    }

    function saveShown(format) {
        const name = `${(city.title ?? "buildings").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")}.${format}`
        if (format === "csv") save(name, "text/csv", csvOf(city.columns, state.shown))
        else save(name, "application/geo+json", geojsonOf(city.columns, state.shown))
    }

    root.onkeydown = event => {
        if (event.key === "Escape" && !details.node.hidden) pick(null, false)
    }
    window.onhashchange = () => {
        const { at, id } = readLink()
        if (at) view.map?.jumpTo(at)
        if (id !== null && city.byId.has(id)) pick(city.byId.get(id), !at)
    }

    update()
    if (state.overlay >= 0) showOverlay(state.overlay, state.opacity)
    const linked = link.id === null ? undefined : city.byId.get(link.id)
    if (linked) pick(linked, !link.at)
    return { city, state, view }
}
