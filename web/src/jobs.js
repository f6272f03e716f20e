// The service's API: files in, a job, its progress, its map.

/** What went wrong, in the server's words (RFC 9457). */
export class Problem extends Error {
    constructor(status, title, detail) {
        super([title, detail].filter(Boolean).join(": "))
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

/** A client; `askToken()` gives a promise of a token, or of null, when the server wants one. */
export function createClient(askToken) {
    let token = null

    async function withToken(send) {
        const answer = await send(token)
        if (answer.status !== 401) return answer
        token = await askToken()
        if (token === null) throw new Problem(401, "The server wants a token", "Ask whoever runs it.")
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
        const answer = await withToken(own => fetch(path, {
            ...options,
            headers: { ...options.headers, ...(own ? { Authorization: `Bearer ${own}` } : {}) },
        }).catch(() => {
            throw new Problem(0, "The server cannot be reached", "Is it still running?")
        }))
        if (!answer.ok) throw problemOf(answer.status, await answer.text())
        return answer
    }

    return {
        async start(kind, form, progress, started) {
            const { status, text } = await upload(`/v1/${kind}`, form, progress, started)
            if (status < 200 || status > 299) throw problemOf(status, text)
            return JSON.parse(text)
        },
        job: async id => (await ask(`/v1/jobs/${encodeURIComponent(id)}`)).json(),
        map: async id => (await ask(`/v1/jobs/${encodeURIComponent(id)}/map`)).json(),
        cancel: id => ask(`/v1/jobs/${encodeURIComponent(id)}`, { method: "DELETE" }),
        result: async (id, type) => (await ask(`/v1/jobs/${encodeURIComponent(id)}/result`, { headers: { Accept: type } })).blob(),
    }
}
