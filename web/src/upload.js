// The service's page: files and options in, then the progress of the job, then its map.

import { el } from "./dom.js"
import { createClient } from "./jobs.js"
import { follow } from "./progress.js"

const field = (label, attributes, hint) => el("label", {}, label, el("input", attributes), hint && el("small", { class: "quiet" }, hint))

function formFields() {
    return [
        el("fieldset", {}, el("legend", {}, "Files"),
            field("Points, one file a track", { type: "file", name: "points", multiple: true, required: true },
                "EGMS, DePSI, StaMPS, MintPy, csv. Ascending and descending ones, if you have both."),
            field("Buildings", { type: "file", name: "buildings", required: true }, "Footprints as GeoJSON, GeoPackage or zipped Shapefile."),
            field("Causes, if you know some", { type: "file", name: "causes" }, "Tunnels, excavations, wells: lines, polygons or points.")),
        el("details", {}, el("summary", {}, "Options"), el("fieldset", {},
            field("Format of the points", { name: "format", placeholder: "found from the content" }, null),
            field("Column that names a building", { name: "id_column", placeholder: "building_id" }),
            field("Layer of the buildings", { name: "layer" }),
            field("Share of damaged buildings", { name: "damage_rate", placeholder: "auto" }, "For example 0.02 for 2 %, or auto."),
            field("Since", { type: "date", name: "since" }, "Only what was observed from this day on counts."),
            field("Until", { type: "date", name: "until" }, "Only what was observed up to this day counts."),
            field("Least confidence in the quadrant", { name: "min_quadrant_confidence", type: "number", min: 0, max: 1, step: 0.05 }))),
        el("label", { class: "check" }, el("input", { type: "checkbox", name: "restore" }), "Also restore a field"),
    ]
}

/** The parts of the form that a request takes: empty fields stay out, so that the server's defaults count. */
export function requestOf(form, names) {
    const request = new FormData()
    for (const [name, value] of new FormData(form)) {
        if (names.includes(name) && (value instanceof File ? value.name !== "" : value.trim() !== "")) request.append(name, value)
    }
    return request
}

const PREDICT = ["points", "buildings", "causes", "format", "id_column", "layer", "damage_rate", "min_quadrant_confidence", "since", "until"]
const RESTORE = ["points", "buildings", "since", "until"]

/** Ask for a token in a dialog; gives null where the user closes it. */
function askToken() {
    return new Promise(resolve => {
        const input = el("input", { type: "password", autocomplete: "off", required: true, "aria-label": "Token" })
        const dialog = el("dialog", { "aria-label": "Token", onclose: () => {
            dialog.remove()
            resolve(dialog.returnValue === "ok" ? input.value : null)
        } }, el("form", { method: "dialog", class: "page" }, el("p", {}, "The server wants a token. It stays in this page only."), input,
            el("div", { class: "actions" }, el("button", { class: "main", value: "ok" }, "Go on"),
                el("button", { value: "cancel", formnovalidate: true }, "Cancel"))))
        document.body.append(dialog)
        dialog.showModal()
    })
}

export function showUpload(root) {
    const client = createClient(askToken)
    const problem = el("p", { class: "problem", role: "alert" })
    const form = el("form", { onsubmit: send }, formFields(), el("div", { class: "actions" }, el("button", { class: "main" }, "Judge the buildings")))
    const page = el("div", { class: "page" }, el("h1", {}, "Plumbline"),
        el("p", {}, "Which buildings are being damaged, where and how severely, from satellite radar (InSAR)."), form, problem)
    root.className = ""
    root.replaceChildren(page)

    async function send(event) {
        event.preventDefault()
        problem.textContent = ""
        const requests = [["predict", requestOf(form, PREDICT)]]
        if (form.elements.restore.checked) requests.push(["restore", requestOf(form, RESTORE)])
        try {
            await follow(root, client, requests)
        } catch (error) {
            problem.textContent = error.message
            root.className = ""
            root.replaceChildren(page)
        }
    }
}
