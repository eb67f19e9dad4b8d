import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { findingsOf, latinSentences, settled, tooWide, type PageCheck } from './page-checks.js'
import { screens, openLab, type PanelLab } from './panel-lab.js'

type Language = 'en' | 'zh'

/** Every page of an administrator. `{id}` stands for the id of a guest. */
const pages: readonly (readonly [name: string, path: string])[] = [
  ['overview', '/'],
  ['guests', '/containers'],
  ['create', '/containers/new'],
  ['guest', '/containers/{id}'],
  ['guest-network', '/containers/{id}/network'],
  ['guest-snapshots', '/containers/{id}/snapshots'],
  ['guest-backups', '/containers/{id}/backups'],
  ['guest-console', '/containers/{id}/console'],
  ['guest-activity', '/containers/{id}/activity'],
  ['guest-settings', '/containers/{id}/settings'],
  ['hosts', '/hosts'],
  ['host', '/hosts/host-a'],
  ['gateways', '/gateways'],
  ['images', '/images'],
  ['snapshots', '/snapshots'],
  ['backups', '/backups'],
  ['schedules', '/schedules'],
  ['tasks', '/tasks'],
  ['routing', '/routing'],
  ['security', '/security'],
  ['customers', '/sub-users'],
  ['customer', '/sub-users/{customer}'],
  ['keys', '/api'],
  ['cli-login', '/cli-login'],
  ['webhooks', '/webhooks'],
  ['webhook', '/webhooks/{webhook}'],
  ['logs', '/logs'],
  ['settings', '/settings'],
  ['account', '/account'],
]

describe('the pages of the panel', () => {
  let lab: PanelLab
  let ids: Readonly<Record<string, string>>

  before(async function () {
    lab = await openLab()
    lab.forgetComplaints()
    const guest = await lab.gateway.fleet.addGuest({ name: 'web-1' })
    for (const status of ['running', 'stopped', 'running', 'stopped'] as const)
      await lab.gateway.fleet.addGuest({ status })
    const { body: customer } = await lab.gateway.request('POST', '/sub-user/create', {
      body: { container_name: 'web-1' },
    })
    await lab.gateway.request('POST', `/containers/${guest.id}/snapshots/schedule`, {
      body: { enabled: true, interval_hours: 24, time: '03:30' },
    })
    const { body: webhook } = await lab.gateway.request('POST', '/webhooks', {
      body: { name: 'billing', url: 'https://billing.example.com/berth', disabled: true },
    })
    ids = { id: String(guest.id), customer: customer.data.id, webhook: webhook.data.id }
  })
  const pathOf = (path: string): string => path.replace(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? '')
  afterEach(() => lab.expectNoComplaints())

  /** Returns the problems of the page that is shown: its accessibility and its language. */
  async function readProblems(page: Page, language: Language, checks: PageCheck): Promise<string[]> {
    const text = await page.locator('body').innerText()
    const isMixed = language === 'en' && /[一-鿿]/.test(text.replaceAll('中文', ''))
    const english = language === 'zh' ? latinSentences(text) : []
    return [...(await findingsOf(page, checks)), ...(isMixed ? ['Chinese text'] : []), ...english]
  }

  /** Returns problems that do not depend on the language: those on a phone, on a wide screen and in the dark theme. */
  async function readProblemsOfLayout(page: Page, name: string): Promise<string[]> {
    const problems: string[] = []
    for (const screen of ['phone', 'wide'] as const) {
      await page.setViewportSize(screens[screen])
      await settled(page)
      await lab.picture(page, `${name}-${screen}`)
      if (await tooWide(page)) problems.push(`${screen} screen`)
    }
    await page.emulateMedia({ colorScheme: 'dark' })
    problems.push(...(await findingsOf(page, 'contrast')))
    await lab.picture(page, `${name}-dark`)
    await page.emulateMedia({ colorScheme: 'light' })
    return problems
  }

  for (const [language, checks] of [
    ['en', 'all'],
    ['zh', 'all but contrast'],
  ] as const)
    it(`are safe, accessible and translated, and fit each screen, in the language ${language}`, async function () {
      const page = await lab.logIn({ language })
      const problems: string[] = []
      for (const [name, path] of pages) {
        await lab.show(page, pathOf(path))
        const found = await readProblems(page, language, checks)
        if (language === 'en') found.push(...(await readProblemsOfLayout(page, name)))
        else await lab.picture(page, `${name}-${language}`)
        problems.push(...found.map((one) => `${name}: ${one}`))
      }
      expect(problems).to.deep.equal([])
      await page.context().close()
    })
})
