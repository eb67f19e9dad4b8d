import type { BrowserContext, Page } from 'playwright-core'
import { patienceMs, waitFor } from '../support/wait.js'

/** Script that runs in each page. It stores the terminal object, because a terminal draws only pixels. */
const takeTerminal = `document.addEventListener('terminal', ({ detail }) => { window.shownTerminal = detail })`

/** Script that reads the complete text of a terminal, and joins wrapped lines. */
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

/** A browser page with a terminal of the panel. */
export class TerminalPage {
  constructor(readonly page: Page) {}

  /** Makes each page store its terminal for tests. Must be called before a page of the context is opened. */
  static async prepare(context: BrowserContext): Promise<void> {
    await context.addInitScript({ content: takeTerminal })
  }

  text(): Promise<string> {
    return this.page.evaluate<string>(readText)
  }

  /** Waits until the terminal shows text that matches the pattern. @returns the complete text */
  async shows(pattern: RegExp): Promise<string> {
    let text = ''
    await waitFor(async () => pattern.test((text = await this.text())), {
      intervalMs: 200, // each check interrupts the drawing of the page
      what: () => `${String(pattern)} in ${JSON.stringify(text.slice(-1500))}`,
    })
    return text
  }

  /** Types a text into the element that has the focus. */
  async type(text: string): Promise<void> {
    await this.page.keyboard.type(text)
  }

  /** Waits until the terminal has a state: `connecting`, `open`, `lost` or `ended`. */
  async state(state: string, timeoutMs = patienceMs): Promise<void> {
    await this.page.locator(`.console .state.${state}`).waitFor({ timeout: timeoutMs })
  }

  async size(): Promise<{ cols: number; rows: number }> {
    return this.page.evaluate('({ cols: window.shownTerminal.cols, rows: window.shownTerminal.rows })')
  }
}
