/*
 * xterm writes styles into <style> elements and `style` attributes, which the page's content security policy forbids.
 * This module applies these styles by script through the object model, which the policy permits (CSP3, 8.4).
 */

let isInPlace = false

/** Turns <style> elements that xterm creates into style sheets. Call it before the first terminal is created. */
export function allowOwnStyles(): void {
  if (isInPlace) return
  isInPlace = true
  const create = document.createElement.bind(document)
  const createOwn = (name: string, options?: ElementCreationOptions): HTMLElement => {
    if (name === 'style') return sheetElement(create('template'))
    const element = create(name, options)
    if (name === 'span') element.setAttribute = setAttribute
    return element
  }
  document.createElement = createOwn
}

/** Makes an element that replaces a <style> element. Its text becomes a style sheet of the document. */
function sheetElement(element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet()
  document.adoptedStyleSheets.push(sheet)
  Object.defineProperty(element, 'textContent', { set: (text: string) => sheet.replaceSync(text) })
  element.remove = () => {
    const { adoptedStyleSheets: sheets } = document
    document.adoptedStyleSheets = sheets.filter((one) => one !== sheet)
    Element.prototype.remove.call(element)
  }
  return element
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === 'style') this.style.cssText = value
  else Element.prototype.setAttribute.call(this, name, value)
}
