import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import type { Locator, Page } from 'playwright-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Script that resolves once nothing on the page has changed or moved for 60 ms. */
const stillScript = `new Promise((resolve) => {
  let timer
  const look = () => document.getAnimations().some(({ playState }) => playState === 'running') ? wait() : end()
  const wait = () => { clearTimeout(timer); timer = setTimeout(look, 60) }
  const end = () => { observer.disconnect(); resolve(true) }
  const observer = new MutationObserver(wait)
  observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true })
  wait()
})`

/** Resolves once the page is stable: its data is loaded and drawn, and no transition runs. */
export async function settled(page: Page): Promise<void> {
  await page.evaluate(stillScript)
}

/** Waits until an element, or an element in it, has the focus. Menus and dialogs take the focus after they appear. */
export async function focused(target: Locator): Promise<void> {
  await target.and(target.page().locator(':focus-within')).waitFor({ state: 'attached' })
}

/** Accessibility checks to run. Contrast depends on the theme, all other checks depend on the language. */
export type PageCheck = 'all' | 'contrast' | 'all but contrast'

/** Reports only violations, without selectors. axe would otherwise compute selectors for passing elements, too. */
const onlyViolations = { resultTypes: ['violations'], selectors: false }
const options: Readonly<Record<PageCheck, object>> = {
  all: onlyViolations,
  contrast: { ...onlyViolations, runOnly: ['color-contrast'] },
  'all but contrast': { ...onlyViolations, rules: { 'color-contrast': { enabled: false } } },
}

/** Returns serious and critical accessibility problems that two checks in succession find. */
export async function findingsOf(page: Page, looked: PageCheck = 'all'): Promise<string[]> {
  await settled(page)
  const first = await findNow(page, looked)
  if (first.length === 0) return []
  await settled(page) // during the first check a control may have been changing its colour
  const again = await findNow(page, looked)
  return first.filter((one) => again.includes(one))
}

async function findNow(page: Page, looked: PageCheck): Promise<string[]> {
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(axe)
  const run = `window.axe.run(${JSON.stringify(options[looked])}).then(({ violations }) => violations)`
  const violations = await page.evaluate<AxeResults['violations']>(run)
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`)
}

/** Returns lines in English, without commands, reasons from hosts and rejections in the log. These stay English. */
export function latinSentences(text: string): string[] {
  return text
    .split('\n')
    .filter((line) => /[A-Za-z]{2,} [a-z]{2,} [a-z]{2,}/.test(line))
    .filter(
      (line) =>
        !/curl|ssh|csrf_refused:|cannot run kvm guests|no IPv6 default route|does not exist in this version/.test(line),
    )
}

/** Returns the controls that notices cover. Controls that are scrolled below the header are not visible anyway. */
export async function coveredByNotices(page: Page): Promise<string[]> {
  await settled(page)
  return page.evaluate<string[]>(`(() => {
    const boxOf = (one) => one.getBoundingClientRect()
    const notices = [...document.querySelectorAll('[data-sonner-toast]')].map(boxOf)
    const header = document.querySelector('.top')
    const isShown = (one, { width, bottom, top }) =>
      width > 0 && bottom > 0 && top < innerHeight && (!one.closest('main') || top >= boxOf(header).bottom)
    return [...document.querySelectorAll('button, a, input, select')]
      .filter((one) => !one.closest('[data-sonner-toast], .veil') && isShown(one, boxOf(one)) && one.checkVisibility({ visibilityProperty: true }))
      .filter((one) => notices.some(({ top, bottom, left, right }) => {
        const box = boxOf(one)
        return box.top < bottom && box.bottom > top && box.left < right && box.right > left
      }))
      .map((one) => one.outerHTML.slice(0, 120))
  })()`)
}

/** True if the page scrolls sideways. */
export async function tooWide(page: Page): Promise<boolean> {
  return page.evaluate<boolean>('document.documentElement.scrollWidth > document.documentElement.clientWidth')
}
