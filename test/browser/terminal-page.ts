import type { BrowserContext, Page } from 'playwright-core'
import { waitFor } from '../support/wait.js'

/** Runs in each page. A terminal draws pixels, so the page hands its object over. */
const takeTerminal = `document.addEventListener('terminal', ({ detail }) => { window.shownTerminal = detail })`

/** The complete text of a terminal, with wrapped lines joined. */
const readText = `(() => {
  const { active } = window.shownTerminal?.buffer ?? { active: { length: 0 } }
  const lines = []
  for (let at = 0; at < active.length; at++) {
    const line = active.getLine(at)
    const text = line.translateToString(true)
    if (line.isWrapped) lines[lines.length - 1] += text
    else lines.push(text)
  }
  return lines.join('\\n').trimEnd()
})()`

/** A page with a terminal of the panel. */
export class TerminalPage {
  constructor(readonly page: Page) {}

  /** Must be called before pages are opened. */
  static async prepare(context: BrowserContext): Promise<void> {
    await context.addInitScript({ content: takeTerminal })
  }

  text(): Promise<string> {
    return this.page.evaluate<string>(readText)
  }

  /** Waits until a text is shown. @returns the complete text */
  async shows(pattern: RegExp, timeoutMs = 60_000): Promise<string> {
    let text = ''
    await waitFor(async () => pattern.test((text = await this.text())), {
      timeoutMs,
      intervalMs: 200, // each read interrupts the drawing of the page
      what: () => `${String(pattern)} in ${JSON.stringify(text.slice(-1500))}`,
    })
    return text
  }

  /** Types on the keyboard, into the element with the focus. */
  async type(text: string): Promise<void> {
    await this.page.keyboard.type(text)
  }

  /** Waits for `connecting`, `open`, `lost` or `ended`. */
  async state(state: string, timeoutMs = 60_000): Promise<void> {
    await this.page.locator(`.console .state.${state}`).waitFor({ timeout: timeoutMs })
  }

  async size(): Promise<{ cols: number; rows: number }> {
    return this.page.evaluate('({ cols: window.shownTerminal.cols, rows: window.shownTerminal.rows })')
  }
}
