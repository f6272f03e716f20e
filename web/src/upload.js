// The service's page: a token where one is needed, then files and options in, and the jobs that were sent before.

import { button, el, isolated } from "./dom.js"
import { LABELS } from "./fields.js"
import { createClient } from "./jobs.js"
import { follow, upload } from "./progress.js"

const field = (name, attributes = {}, hint = null) =>
    el("label", {}, LABELS[name], el("input", { name, ...attributes }), hint && el("small", { class: "quiet" }, hint))

function formFields() {
    return [
        el("fieldset", {}, el("legend", {}, "Files"),
            field("points", { type: "file", multiple: true, required: true },
                "EGMS, DePSI, StaMPS, MintPy, csv. Ascending and descending ones, if you have both."),
            field("buildings", { type: "file", required: true }, "Footprints as GeoJSON, GeoPackage or zipped Shapefile."),
            field("causes", { type: "file" }, "Tunnels, excavations, wells: lines, polygons or points.")),
        el("details", {}, el("summary", {}, "Options"), el("fieldset", {},
            field("format", { placeholder: "found from the content" }),
            field("id_column", { placeholder: "building_id" }),
            field("layer"),
            field("damage_rate", { placeholder: "auto" }, "For example 0.02 for 2 %, or auto."),
            field("since", { type: "date" }, "Only what was observed from this day on counts."),
            field("until", { type: "date" }, "Only what was observed up to this day counts."),
            field("min_quadrant_confidence", { type: "number", min: 0, max: 1, step: 0.05 }),
            field("params", { type: "file" }, "A YAML file with the section ingest, where a message asks for it."))),
        el("label", { class: "check" }, el("input", { type: "checkbox", name: "restore" }), "Also restore a field"),
        el("details", {}, el("summary", {}, "Settings of the field"), el("fieldset", {},
            field("cell", { type: "number", min: 1, max: 1000, step: "any", placeholder: "10" }),
            field("bbox", { placeholder: "WEST,SOUTH,EAST,NORTH" }, "Degrees. The whole area without."))),
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

const BOTH = ["points", "buildings", "params", "format", "layer", "since", "until"]
const PREDICT = [...BOTH, "causes", "id_column", "damage_rate", "min_quadrant_confidence"]
const RESTORE = [...BOTH, "cell", "bbox"]
const KINDS = { predict: "buildings", restore: "field" }

/** Ask for a token in a dialog; gives null where the user closes it. */
function askToken(wrong) {
    return new Promise(resolve => {
        const input = el("input", { type: "password", autocomplete: "off", required: true, "aria-label": "Token" })
        const dialog = el("dialog", { "aria-label": "Token", onclose: () => {
            dialog.remove()
            resolve(dialog.returnValue === "ok" ? input.value.trim() : null)
        } }, el("form", { method: "dialog", class: "page" },
            wrong && el("p", { class: "problem", role: "alert" }, "The service does not know this token."),
            el("p", {}, "The service needs a token. It stays in this tab until you close it."), input,
            el("div", { class: "actions" }, el("button", { class: "main", value: "ok" }, "Go on"),
                el("button", { value: "cancel", formnovalidate: true }, "Cancel"))))
        document.body.append(dialog)
        dialog.showModal()
    })
}

const addressOf = ids => `?${new URLSearchParams(ids.map(id => ["job", id]))}`

function jobList(jobs) {
    return el("section", { "aria-label": "Your jobs" }, el("h2", {}, "Your jobs"), jobs.length ? el("table", {},
        jobs.map(({ id, kind, name, status, created }) => el("tr", {},
            el("td", {}, el("a", { href: addressOf([id]) }, isolated(name ?? id))), el("td", {}, KINDS[kind]),
            el("td", {}, new Date(1000 * created).toLocaleString()), el("td", {}, status))))
        : el("p", { class: "quiet" }, "None yet."))
}

function showProblem(root, error, again) {
    root.className = ""
    root.replaceChildren(el("div", { class: "page" }, el("h1", {}, "Plumbline"),
        el("p", { class: "problem", role: "alert" }, error.message), again))
}

/** Show the jobs that the address names; without any, the form and the jobs that there are. */
export async function showService(root) {
    const client = createClient(askToken)
    const ids = new URLSearchParams(location.search).getAll("job")
    try {
        if (ids.length) await follow(root, client, ids)
        else await showForm(root, client)
    } catch (error) {
        showProblem(root, error, el("div", { class: "actions" }, button("Try again", () => showService(root)),
            ids.length > 0 && el("a", { href: "./" }, "Your jobs, and another upload")))
    }
}

async function showForm(root, client) {
    let list = jobList(await client.list()) // asks for the token, before anybody chooses files
    const problem = el("p", { class: "problem", role: "alert" })
    const form = el("form", { onsubmit: send }, formFields(), el("div", { class: "actions" }, el("button", { class: "main" }, "Judge the buildings")))
    const page = el("div", { class: "page" }, el("h1", {}, "Plumbline"),
        el("p", {}, "Which buildings are being damaged, where and how severely, from satellite radar (InSAR)."), problem, form, list)
    root.className = ""
    root.replaceChildren(page)

    async function send(event) {
        event.preventDefault()
        problem.textContent = ""
        const requests = [["predict", requestOf(form, PREDICT)]]
        if (form.elements.restore.checked) requests.push(["restore", requestOf(form, RESTORE)])
        try {
            const address = addressOf(await upload(root, client, requests))
            history.pushState(null, "", address)
            window.onpopstate = () => location.search !== address && location.reload()
            await follow(root, client, new URLSearchParams(address).getAll("job"))
        } catch (error) {
            history.replaceState(null, "", location.pathname)
            problem.textContent = error.message
            root.className = ""
            root.replaceChildren(page)
            const before = list
            list = await client.list().then(jobList, () => before)
            before.replaceWith(list)
        }
    }
}
