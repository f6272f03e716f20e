// Small helpers to make elements: texts go in as texts, never as HTML, so a hostile name stays a name.

const SVG = "http://www.w3.org/2000/svg"

function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        if (value === null || value === undefined || value === false) continue
        if (name.startsWith("on")) node.addEventListener(name.slice(2), value)
        else if (name === "style") node.style.cssText = value
        else node.setAttribute(name, value === true ? "" : value)
    }
    node.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false))
    return node
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children)

export const svg = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children)

/** A probability in percent, never 0 or 100: as `format_share` in serve/columns.py. */
export const percent = share => (share < 0.01 ? "< 1 %" : share > 0.99 ? "> 99 %" : `${Math.round(100 * share)} %`)

/** A strain, permille, rounded down where the nearest value is of the next category: as `format_permille` in serve/columns.py.
 * `format`: `permille` of the document. */
export function permille(strain, { decimals, bounds }) {
    const text = strain.toFixed(decimals)
    return bounds.includes(Number(text)) && strain < Number(text) ? (Number(text) - 10 ** -decimals).toFixed(decimals) : text
}

/** Standard errors on either side of a 90 % interval. */
export const NINETY = 1.645
/** Half the width of the 90 % interval of a value with this standard error, and what it is. */
export const plusMinus = (standardError, unit) => `± ${(NINETY * standardError).toFixed(1)} ${unit} (90\u00a0%)`

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`

/** With a true minus. */
export const signed = (value, digits = 1) => value.toFixed(digits).replace("-", "\u2212")

/** A user's own name, isolated: written from right to left, it does not turn the figures beside it. */
export const isolated = name => `\u2068${name}\u2069`

export function select(label, options, value, change) {
    const field = el("select", { "aria-label": label, onchange: () => change(field.value) },
        options.map(([key, text]) => el("option", { value: key, selected: key === value }, text)))
    return el("label", { class: "field" }, el("span", {}, label), field)
}

export function checkbox(text, checked, change) {
    const box = el("input", { type: "checkbox", checked, onchange: () => change(box.checked) })
    return el("label", { class: "check" }, box, text)
}

export const button = (text, press, label) => el("button", { type: "button", onclick: press, "aria-label": label }, text)
