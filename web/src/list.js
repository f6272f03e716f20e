// The list of the buildings that are shown. Only the rows in view exist: 50,000 would stop a phone.

import { hasSeverity } from "./city.js"
import { DEFAULT_COLOURS, FAINT, HATCH, MEASURES, buildingColour, hatchBackground, holdsZero, measureColour, scaleOf } from "./colours.js"
import { el, isolated, percent, permille } from "./dom.js"
import { shownQuadrants } from "./frame.js"

const ROW_PX = 44
const SPARE = 6

function swatch(...of) {
    return el("span", { class: "swatch", style: swatchStyle(...of), "aria-hidden": true })
}

function swatchStyle(building, by, scale, classes) {
    if (scale) return `background: ${measureColour(building[by], scale)}${holdsZero(building, by) ? `; opacity: ${FAINT}` : ""}`
    const colour = buildingColour(building, by, classes)
    return building.judged ? `background: ${colour}` : hatchBackground(HATCH[building.reason_group] ?? HATCH.points, colour)
}

/** As `58 %, 1.23 permille, NE or NW`, or `58 %, where is not known, 1.23 permille`: the mark is read in a narrow list, too. */
function summary(building, format) {
    const mark = building.judged ? "" : building.unsureWhere ? "where is not known" : "not judged"
    return [building.probability === null ? "" : percent(building.probability), mark,
        hasSeverity(building) ? `${permille(building.severity_permille, format)} permille` : "", shownQuadrants(building).join(" or ")]
        .filter(part => part !== "").join(", ")
}

/** `choose(building)` is called on a click, on Enter, and while the arrow keys move. */
export function createList(city, choose) {
    const state = { buildings: [], active: -1, by: DEFAULT_COLOURS, scale: null }
    const inner = el("div", { class: "rows", role: "presentation" })
    const node = el("div", { class: "list", role: "listbox", tabindex: 0, "aria-label": "Buildings" }, inner)

    function row(i) {
        const building = state.buildings[i]
        return el("div", { class: "row", role: "option", id: `row-${i}`, "aria-selected": String(i === state.active),
            "aria-setsize": state.buildings.length, "aria-posinset": i + 1, style: `top: ${i * ROW_PX}px`,
            onclick: () => activate(i) },
            swatch(building, state.by, state.scale, city.probability_classes),
            el("span", { class: "name" }, isolated(building.building_id)),
            el("span", { class: "said" }, summary(building, city.permille)))
    }

    function draw() {
        const first = Math.max(0, Math.floor(node.scrollTop / ROW_PX) - SPARE)
        const last = Math.min(state.buildings.length, Math.ceil((node.scrollTop + node.clientHeight) / ROW_PX) + SPARE)
        inner.style.height = `${state.buildings.length * ROW_PX}px`
        inner.replaceChildren(...Array.from({ length: Math.max(0, last - first) }, (_, i) => row(first + i)))
        const seen = state.active >= first && state.active < last
        if (seen) node.setAttribute("aria-activedescendant", `row-${state.active}`)
        else node.removeAttribute("aria-activedescendant")
    }

    function reveal(i) {
        const top = i * ROW_PX
        if (top < node.scrollTop) node.scrollTop = top
        else if (top + ROW_PX > node.scrollTop + node.clientHeight) node.scrollTop = top + ROW_PX - node.clientHeight
    }

    function activate(i) {
        state.active = i
        reveal(i)
        draw()
        choose(state.buildings[i])
    }

    const page = () => Math.max(1, Math.floor(node.clientHeight / ROW_PX) - 1)
    const moves = { ArrowDown: () => 1, ArrowUp: () => -1, PageDown: page, PageUp: () => -page(),
        Home: () => -Infinity, End: () => Infinity, Enter: () => 0 }
    node.addEventListener("keydown", event => {
        if (!(event.key in moves) || !state.buildings.length) return
        event.preventDefault()
        activate(Math.min(state.buildings.length - 1, Math.max(0, state.active + moves[event.key]())))
    })
    node.addEventListener("scroll", draw, { passive: true })
    new ResizeObserver(draw).observe(node)

    return {
        node,
        show(buildings, chosen) {
            Object.assign(state, { buildings, active: chosen ? buildings.indexOf(chosen) : -1 })
            node.scrollTop = 0
            if (state.active >= 0) reveal(state.active)
            draw()
        },
        mark(building) {
            state.active = building ? state.buildings.indexOf(building) : -1
            if (state.active >= 0) reveal(state.active)
            draw()
        },
        colour(by) {
            Object.assign(state, { by, scale: by in MEASURES ? scaleOf(city.buildings, by) : null })
            draw()
        },
    }
}

