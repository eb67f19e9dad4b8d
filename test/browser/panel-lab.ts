import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect } from 'chai'
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { makeAdmin, password } from '../support/gateway/browser.js'
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway/test-gateway.js'
import { waitFor } from '../support/wait.js'
import { settled } from './page-checks.js'

const pictures = resolve('test/browser/out')
const built = resolve(import.meta.dirname, '../../dist/panel')
const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // All host names in the URLs of tests lead to loopback.
  '--host-resolver-rules=MAP *.test 127.0.0.1',
]

/** Script that runs in each page. It is text, because the tests do not have the types of the browser. */
const reportViolations = `document.addEventListener('securitypolicyviolation', (event) => {
  window.reportViolation([event.violatedDirective, event.blockedURI, event.sourceFile, event.lineNumber].join(' '))
})`

/** Screen sizes of a desktop and a small phone, in pixels. */
export const screens = { wide: { width: 1280, height: 800 }, phone: { width: 360, height: 740 } } as const

/** Problems on pages: requests to other origins, violations of the content security policy, logged errors. */
export interface Complaints {
  readonly foreign: string[]
  readonly violations: string[]
  readonly errors: string[]
}

export interface OpenOptions {
  readonly screen?: keyof typeof screens
  readonly language?: 'en' | 'zh'
  readonly theme?: 'light' | 'dark'
  /** Username of the administrator that is created for the login. Default: a new name. */
  readonly username?: string
  /** Role of this administrator. Default: full. */
  readonly role?: 'operator' | 'support' | 'read_only'
}

/** The part of a gateway that `PanelLab` needs. */
type PanelServer = Pick<TestGateway, 'url' | 'request' | 'close'>

/** The built panel, which a real gateway serves, in a real Chromium. */
export class PanelLab<Server extends PanelServer = TestGateway> {
  readonly complaints: Complaints = { foreign: [], violations: [], errors: [] }
  #admins = 0

  private constructor(
    readonly gateway: Server,
    readonly browser: Browser,
  ) {}

  static async start(options: TestGatewayOptions = {}): Promise<PanelLab> {
    return PanelLab.at(await startTestGateway({ panelDirectory: built, ...options }))
  }

  /** Creates a lab with a gateway that the caller has started. */
  static async at<Server extends PanelServer>(gateway: Server): Promise<PanelLab<Server>> {
    mkdirSync(pictures, { recursive: true })
    return new PanelLab(gateway, await (launched ??= launch()))
  }

  async close(): Promise<void> {
    for (const context of this.browser.contexts()) await context.close()
    await this.gateway.close()
  }

  /** Opens a separate browser context without a login. */
  async open({ screen = 'wide', language = 'en', theme = 'light' }: OpenOptions = {}): Promise<BrowserContext> {
    const context = await this.browser.newContext({
      viewport: screens[screen],
      colorScheme: theme,
      locale: language === 'zh' ? 'zh-CN' : 'en-US',
      reducedMotion: 'reduce',
    })
    context.setDefaultTimeout(180_000)
    await context.exposeBinding('reportViolation', (_source, text: string) => this.complaints.violations.push(text))
    await context.addInitScript({ content: reportViolations })
    context.on('request', (request) => {
      const url = request.url()
      const address = url.replace(/^ws/, 'http').replace('//localhost:', '//127.0.0.1:')
      if (!address.startsWith(this.gateway.url) && !/^(data|blob|about):/.test(url)) this.complaints.foreign.push(url)
    })
    context.on('console', (message) => {
      const text = `${message.text()} ${message.location().url}`
      if (message.type() === 'error' && !isRefusal(text)) this.complaints.errors.push(text)
    })
    context.on('weberror', (error) =>
      this.complaints.errors.push(`${error.error().message} ${error.error().stack} ${error.page()?.url()}`),
    )
    return context
  }

  /** Creates an administrator, and logs in with the form. @returns the page */
  async logIn(options: OpenOptions = {}): Promise<Page> {
    const { username = `admin${++this.#admins}`, role } = options
    await makeAdmin(this.gateway, username, password, role && { role })
    const page = await (await this.open(options)).newPage()
    await page.goto(`${this.gateway.url}/`)
    await fillLogin(page, username)
    await page.locator('#main-content h1').waitFor()
    return page
  }

  /** Opens a page of the panel and waits until its data is shown. */
  async show(page: Page, path: string): Promise<void> {
    await page.goto(`${this.gateway.url}/#${path}`)
    // The browser reports a new URL to the panel in a separate task. Until then, the panel shows the previous page.
    await page.evaluate('new Promise((resolve) => setTimeout(resolve))')
    // The panel goes back to a page with unsaved values, and asks.
    if ((await page.locator('[data-leaving]').count()) > 0) await leaveUnsaved(page)
    await this.loaded(page)
  }

  /** Waits until a page of the panel shows its data. */
  async loaded(page: Page): Promise<void> {
    await page.locator('#main-content :is(h1, .empty)').first().waitFor()
    await waitFor(async () => (await page.locator('.skeleton').count()) === 0, {
      what: () => `${page.url()} has its data`,
    })
    await settled(page)
  }

  /** Takes a screenshot for people if the variable BERTH_TEST_PICTURES is set. No test reads the screenshot. */
  async picture(page: Page, name: string): Promise<void> {
    if (!process.env['BERTH_TEST_PICTURES']) return
    await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true })
  }

  /** Drops the complaints that pages have caused so far. In a shared lab, they may come from other tests. */
  forgetComplaints(): void {
    for (const list of Object.values(this.complaints) as string[][]) list.length = 0
  }

  /** Fails if any page has complained until now. */
  expectNoComplaints(): void {
    expect(this.complaints).to.deep.equal({ foreign: [], violations: [], errors: [] })
  }
}

/** Browser that all test files of this process share. It is closed after the last test. */
let launched: Promise<Browser> | undefined
const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: join(import.meta.dirname, 'chromium'), args: flags })

let opened: PanelLab | undefined

/** Opens a lab for a test file. Closes the lab of this process's previous file, so that files share no guests. */
export async function openLab(): Promise<PanelLab> {
  await opened?.close()
  return (opened = await PanelLab.start({ trustedProxies: ['127.0.0.1'] }))
}
after(async () => {
  await opened?.close()
  await (await launched)?.close()
})

/** Answers the question whether to leave a page with unsaved values. */
async function leaveUnsaved(page: Page): Promise<void> {
  await page.getByRole('button', { name: /^(Leave|离开)$/ }).click()
}

/** Fills in and sends the login form, which can be in any language. */
export async function fillLogin(page: Page, username: string, given = password): Promise<void> {
  await page.locator('#username').fill(username)
  await page.locator('#password').fill(given)
  await page.locator('form button[type=submit]').click()
}

/** Sends the login form with a wrong password, and waits until the form shows the refusal. */
export async function failLogin(page: Page, username: string): Promise<void> {
  await fillLogin(page, username, 'a wrong password')
  await waitFor(async () => (await page.locator('#password').inputValue()) === '', { what: 'the refusal' })
}

/** True for the browser's message about a refused request. The panel learns the user's rights from such refusals. */
function isRefusal(text: string): boolean {
  return /status of 4\d\d .*\/api\/v1\//.test(text)
}
