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

async function wait(client, id, meter, cancelled) {
    for (;;) {
        const { status, progress, problem } = await client.job(id)
        if (status === "done") return meter.show("done", 1, 1)
        if (status === "cancelled" || cancelled()) throw new Problem(0, "Cancelled", "")
        if (status === "failed") throw new Problem(problem?.status ?? 0, problem?.title ?? "The job failed", problem?.detail)
        meter.show(progress ? progress.step : status, progress?.done ?? 0, progress?.total ?? 0)
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
    return el("details", { class: "menu" }, el("summary", {}, "Results"), el("div", {}, jobs.flatMap(({ kind, id }) =>
        RESULTS[kind].map(([label, type, suffix]) =>
            el("p", {}, button(label, () => fetchResult(id, type, `${kind}.${suffix}`), `Save the result as ${label}`))))))
}

/** Send the requests, pairs of kind and form, one after the other; then show the map.
 *
 * Throws a Problem where one is refused, fails or is cancelled. */
export async function follow(root, client, requests) {
    let abort = () => {}
    let stopped = false
    const jobs = []
    const meters = requests.map(([kind]) => bar(NAMES[kind]))
    const cancel = button("Cancel", () => {
        stopped = true
        abort()
        for (const { id } of jobs) client.cancel(id).catch(() => {}) // it may have ended meanwhile
    })
    root.className = ""
    root.replaceChildren(el("div", { class: "page" }, el("h1", {}, "Plumbline"), meters.map(({ node }) => node), cancel))
    try {
        for (const [i, [kind, form]] of requests.entries()) {
            const megabytes = bytes => (bytes / 1e6).toFixed(1)
            const { id } = await client.start(kind, form, (sent, total) =>
                meters[i].show(`sending ${megabytes(sent)} of ${megabytes(total)} MB`, sent, total), stop => (abort = stop))
            jobs.push({ kind, id })
            if (stopped) throw new Problem(0, "Cancelled", "")
        }
        abort = () => {}
        for (const [i, { id }] of jobs.entries()) await wait(client, id, meters[i], () => stopped)
    } catch (error) {
        if (!stopped) for (const { id } of jobs) client.cancel(id).catch(() => {})
        throw error
    }
    const documents = []
    for (const { id } of jobs) documents.push(await client.map(id))
    window.plumbline = showMap(root, mergeDocuments(documents), [resultButtons(client, jobs)])
}
