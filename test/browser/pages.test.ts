import { expect } from 'chai'
import { findingsOf, latinSentences, tooWide } from './page-checks.js'
import { screens, sharedLab, type PanelLab } from './panel-lab.js'

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
  ['images', '/images'],
  ['snapshots', '/snapshots'],
  ['backups', '/backups'],
  ['tasks', '/tasks'],
  ['routing', '/routing'],
  ['security', '/security'],
  ['customers', '/sub-users'],
  ['customer', '/sub-users/{customer}'],
  ['keys', '/api'],
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
    lab = await sharedLab()
    lab.forgetComplaints()
    const guest = await lab.gateway.fleet.addGuest({ name: 'web-1' })
    for (const status of ['running', 'stopped', 'running', 'stopped'] as const)
      await lab.gateway.fleet.addGuest({ status })
    const { body: customer } = await lab.gateway.request('POST', '/sub-user/create', {
      body: { container_name: 'web-1' },
    })
    const { body: webhook } = await lab.gateway.request('POST', '/webhooks', {
      body: { name: 'billing', url: 'https://billing.example.com/berth', disabled: true },
    })
    ids = { id: String(guest.id), customer: customer.data.id, webhook: webhook.data.id }
  })
  const pathOf = (path: string): string => path.replace(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? '')
  afterEach(() => lab.expectNoComplaints())

  for (const screen of Object.keys(screens) as (keyof typeof screens)[])
    it(`fit ${screens[screen].width} pixels, load nothing from other sites, and obey the security policy`, async function () {
      const page = await lab.logIn({ screen })
      const wide: string[] = []
      for (const [name, path] of pages) {
        await lab.show(page, pathOf(path))
        await lab.picture(page, `${name}-${screen}`)
        if (await tooWide(page)) wide.push(name)
      }
      expect(wide).to.deep.equal([])
      await page.context().close()
    })

  for (const [language, theme, looked] of [
    ['en', 'light', 'all'],
    ['en', 'dark', 'contrast'],
    ['zh', 'light', 'all but contrast'],
  ] as const)
    it(`are accessible and translated in the language ${language} and the ${theme} theme`, async function () {
      const page = await lab.logIn({ language, theme })
      const found: Record<string, string[]> = {}
      const foreignText: string[] = []
      for (const [name, path] of pages) {
        await lab.show(page, pathOf(path))
        const findings = await findingsOf(page, looked)
        if (findings.length > 0) found[name] = findings
        if (looked !== 'all') await lab.picture(page, `${name}-${language}-${theme}`)
        const text = await page.locator('body').innerText()
        if (language === 'en' && /[一-鿿]/.test(text.replaceAll('中文', ''))) foreignText.push(name)
        if (language === 'zh') foreignText.push(...latinSentences(text).map((one) => `${name}: ${one}`))
      }
      expect(found).to.deep.equal({})
      expect(foreignText).to.deep.equal([])
      await page.context().close()
    })
})
