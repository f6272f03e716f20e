// The service's API: files in, a job, its progress, its map. Its addresses are relative: a proxy may show it under a path.

import { inWords } from "./fields.js"

const TOKEN = "plumbline-token"

/** What went wrong, in the server's words (RFC 9457), for somebody who sees the form. */
export class Problem extends Error {
    constructor(status, title, detail) {
        super(inWords([title, detail].filter(Boolean).join(": ")))
        this.status = status
    }
}

function problemOf(status, text) {
    try {
        const { title, detail } = JSON.parse(text)
        return new Problem(status, title ?? `Error ${status}`, detail)
    } catch {
        return new Problem(status, `The server answers with error ${status}`, "")
    }
}

/** A client; `askToken(wrong)` gives a promise of a token, or of null, when the server wants one, or another one. */
export function createClient(askToken) {
    let token = sessionStorage.getItem(TOKEN)

    async function withToken(send) {
        const answer = await send(token)
        if (answer.status !== 401) return answer
        sessionStorage.removeItem(TOKEN)
        token = await askToken(token !== null)
        if (token === null) throw new Problem(401, "The service needs a token", "Ask whoever runs it.")
        sessionStorage.setItem(TOKEN, token)
        return withToken(send)
    }

    function upload(path, form, progress, started) {
        return withToken(own => new Promise((resolve, reject) => {
            const request = new XMLHttpRequest() // fetch says nothing of how much was sent
            request.open("POST", path)
            if (own) request.setRequestHeader("Authorization", `Bearer ${own}`)
            request.upload.onprogress = ({ loaded, total }) => progress(loaded, total)
            request.onload = () => resolve({ status: request.status, text: request.responseText })
            request.onerror = () => reject(new Problem(0, "The server cannot be reached", "Is it still running?"))
            request.onabort = () => reject(new Problem(0, "Cancelled", ""))
            started(() => request.abort())
            request.send(form)
        }))
    }

    async function ask(path, options = {}) {
        const answer = await withToken(own => fetch(`v1/jobs${path}`, {
            ...options,
            headers: { ...options.headers, ...(own ? { Authorization: `Bearer ${own}` } : {}) },
        }).catch(() => {
            throw new Problem(0, "The server cannot be reached", "Is it still running?")
        }))
        if (!answer.ok) throw problemOf(answer.status, await answer.text())
        return answer
    }

    const one = id => `/${encodeURIComponent(id)}`
    return {
        async start(kind, form, progress, started) {
            const { status, text } = await upload(`v1/${kind}`, form, progress, started)
            if (status < 200 || status > 299) throw problemOf(status, text)
            return JSON.parse(text)
        },
        list: async () => (await ask("")).json(),
        job: async id => (await ask(one(id))).json(),
        map: async id => (await ask(`${one(id)}/map`)).json(),
        cancel: id => ask(one(id), { method: "DELETE" }),
        result: async (id, type) => (await ask(`${one(id)}/result`, { headers: { Accept: type } })).blob(),
    }
}
