// From the request to the map: upload, wait for the jobs, show what they made.

import { button, el } from "./dom.js"
import { save } from "./exports.js"
import { Problem } from "./jobs.js"
import { showMap } from "./view.js"

const POLL_MS = 1000
const RESULTS = {
    predict: [["CSV", "text/csv", "csv"], ["GeoJSON", "application/geo+json", "geojson"],
        ["GeoPackage", "application/geopackage+sqlite3", "gpkg"], ["GeoParquet", "application/vnd.apache.parquet", "parquet"]],
    restore: [["GeoTIFF of the field", "image/tiff", "tif"]],
}
const REPORT = "application/pdf"
const NAMES = { predict: "Judging the buildings", restore: "Restoring the field" }

const pause = () => new Promise(resolve => setTimeout(resolve, POLL_MS))

function bar(name) {
    const meter = el("progress", { max: 1, "aria-label": name })
    const text = el("p", { role: "status" }, "waiting")
    return {
        node: el("section", {}, el("h2", {}, name), meter, text),
        show(said, done, total) {
            if (text.textContent !== said) text.textContent = said
            if (total > 0) meter.value = done / total
            else meter.removeAttribute("value")
        },
    }
}

/** Show a bar for each kind of job, and a button that cancels; gives the bars. */
function showBars(root, kinds, cancel, hint) {
    const bars = kinds.map(kind => bar(NAMES[kind]))
    root.className = ""
    root.replaceChildren(el("div", { class: "page" }, el("h1", {}, "Plumbline"), bars.map(({ node }) => node),
        el("p", { class: "quiet" }, hint), el("div", { class: "actions" }, button("Cancel", cancel))))
    return bars
}

async function wait(client, id, meter, cancelled) {
    for (;;) {
        const job = await client.job(id).catch(error => {
            if (error.status !== 0) throw error
            return { status: `${error.message} Trying again.` } // the job goes on without this page
        })
        const { status, progress, problem } = job
        if (status === "cancelled" || cancelled()) throw new Problem(0, "Cancelled", "")
        if (status === "failed") throw new Problem(problem?.status ?? 0, problem?.title ?? "The job failed", problem?.detail)
        meter.show(progress ? progress.step : status, progress?.done ?? 0, progress?.total ?? 0)
        if (status === "done") return job
        await pause()
    }
}

/** One map of both: the field lies under the buildings. */
export function mergeDocuments(documents) {
    const [first, ...others] = documents
    return { ...first, overlays: [...(first.overlays ?? []), ...others.flatMap(other => other.overlays ?? [])] }
}

function resultButtons(client, jobs) {
    const fetchResult = async (id, type, name) => {
        try {
            save(name, type, await client.result(id, type))
        } catch (error) {
            alert(error.message)
        }
    }
    const report = jobs.find(({ results }) => results.includes(REPORT))
    return [el("details", { class: "menu" }, el("summary", {}, "Results"), el("div", {}, jobs.flatMap(({ kind, id }) =>
        RESULTS[kind].map(([label, type, suffix]) =>
            el("p", {}, button(label, () => fetchResult(id, type, `${kind}.${suffix}`), `Save the result as ${label}`)))))),
    report && button("Report as PDF", () => fetchResult(report.id, REPORT, "report.pdf"))]
}

/** Send the requests, pairs of kind and form, one after the other; gives the names of the jobs.
 *
 * Throws a Problem where one is refused or cancelled; then none of the others goes on. */
export async function upload(root, client, requests) {
    let abort = () => {}
    const ids = []
    const bars = showBars(root, requests.map(([kind]) => kind), () => abort(), "Keep this page open until everything is sent.")
    const megabytes = bytes => (bytes / 1e6).toFixed(1)
    try {
        for (const [i, [kind, form]] of requests.entries()) {
            ids.push((await client.start(kind, form, (sent, total) =>
                bars[i].show(`sending ${megabytes(sent)} of ${megabytes(total)} MB`, sent, total), stop => (abort = stop))).id)
        }
    } catch (error) {
        for (const id of ids) client.cancel(id).catch(() => {}) // it may have ended meanwhile
        throw error
    }
    return ids
}

/** Show how far jobs are, then their map. Throws a Problem where one fails, is cancelled or is not there. */
export async function follow(root, client, ids) {
    let stopped = false
    const jobs = []
    for (const id of ids) jobs.push(await client.job(id))
    const bars = showBars(root, jobs.map(({ kind }) => kind), () => {
        stopped = true
        for (const id of ids) client.cancel(id).catch(() => {}) // it may have ended meanwhile
    }, "You may close this page: its address leads here again.")
    const done = []
    for (const [i, id] of ids.entries()) done.push(await wait(client, id, bars[i], () => stopped))
    const documents = []
    for (const id of ids) documents.push(await client.map(id))
    window.plumbline = showMap(root, mergeDocuments(documents),
        [...resultButtons(client, done), el("a", { href: "./" }, "Your jobs, and another upload")])
}
