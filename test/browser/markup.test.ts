import { expect } from 'chai'
import type { Page } from 'playwright-core'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { BerthError } from '../../shared/errors.js'
import { SubUserCalls } from '../support/gateway/sub-user-calls.js'
import { waitFor } from '../support/wait.js'
import { settled } from './page-checks.js'
import { fillLogin, PanelLab } from './panel-lab.js'

/** Text that has an effect if a page treats it as HTML or as a template. */
const markup = '<img src=x onerror="window.broken=1">{{7*7}}'

/** Tests all pages that show texts of other users. */
describe('texts with markup in the panel', function () {
  let lab: PanelLab
  let guest: Guest
  let webhook = ''
  let customer = ''
  const refused: string[] = []

  const send = async (
    method: 'POST' | 'PUT',
    path: string,
    body: object,
  ): Promise<Record<string, string> | undefined> => {
    const { status, body: answer, text } = await lab.gateway.request(method, path, { body })
    if (status === 400) return void refused.push(`${method} ${path} ${answer.details?.field}`)
    expect(status, text).to.be.oneOf([200, 201, 202, 401])
    return answer.data as Record<string, string>
  }

  before(async () => {
    lab = await PanelLab.start()
    await lab.gateway.fleet.work('host-a')
    guest = await lab.gateway.fleet.addGuest({ name: 'marked', status: 'stopped' })
    const at = `/containers/${guest.id}`
    await send('POST', `${at}/snapshots`, { description: markup })
    await send('POST', `${at}/port-mappings`, { container_port: 80, description: markup })
    await send('PUT', `${at}/firewall`, {
      enabled: true,
      default_action: 'DROP',
      rules: [{ direction: 'in', protocol: 'tcp', action: 'ACCEPT', port: '80', description: markup }],
    })
    await send('POST', '/api-keys', { name: markup })
    const hook = { name: markup, url: 'https://x.example.com/?<script>', disabled: true }
    webhook = (await send('POST', '/webhooks', hook))?.['id'] ?? ''
    await send('POST', '/images/custom', {
      type: 'lxc',
      name: markup,
      distro: 'alpine',
      release: '3',
      arch: 'amd64',
      description: markup,
      url: 'https://x.example.com/a.tar.gz',
      sha256: 'ab'.repeat(32),
    })
    await send('POST', '/hosts', { name: markup, address: '192.0.2.9:7443' })
    await send('POST', '/backup-targets', { name: markup, type: 'local', path: '/var/tmp/none' })
    await send('POST', '/sub-user/create', { container_name: 'marked', username: markup })
    await send('POST', '/login', { username: markup, password: markup })
    const made = await new SubUserCalls(lab.gateway).make({ container_name: 'marked', username: 'carol' })
    customer = made.id
    // The host fails with an error text that the attacker chose.
    lab.gateway.fleet.agentOf('host-a').host.faults.start = () => {
      throw new BerthError('internal', 'guest_start_failed', `the guest says ${markup}`)
    }
    const { body } = await lab.gateway.request('POST', `${at}/start`, { body: {} })
    await waitFor(
      () => lab.gateway.fleet.view.findOperation(String(body.data.task_id))?.operation.status === 'failed',
      { what: 'it fails' },
    )
    // The browser has a user agent that the attacker chose.
    const context = await lab.browser.newContext({ userAgent: markup, locale: 'en-US' })
    const page = await context.newPage()
    await page.goto(lab.gateway.url)
    await fillLogin(page, 'carol', made.password)
    await page.locator('#main-content h1').waitFor()
    await context.close()
  })
  after(() => lab.close())

  const harm = (page: Page): Promise<unknown> =>
    page.evaluate(
      `[String(window.broken), document.querySelectorAll('img[src="x"]').length, document.body.innerText.includes('{{7*7}}') || !document.body.innerText.includes('49">')]`,
    )
  const expectNoHarm = async (page: Page, where: string): Promise<void> => {
    expect(await harm(page), where).to.deep.equal(['undefined', 0, true])
  }

  it('are shown to administrators on every page as complete plain text', async () => {
    const page = await lab.logIn({ username: 'ada' })
    const at = `/containers/${guest.id}`
    const shown: string[] = []
    for (const path of [
      '/',
      at,
      `${at}/network`,
      `${at}/snapshots`,
      `${at}/backups`,
      `${at}/activity`,
      `${at}/settings`,
      '/containers',
      '/hosts',
      '/gateways',
      '/images',
      '/snapshots',
      '/backups',
      '/tasks',
      '/routing',
      '/security',
      '/sub-users',
      `/sub-users/${customer}`,
      '/api',
      '/webhooks',
      `/webhooks/${webhook}`,
      '/logs',
      '/settings',
      '/account',
      '/containers/new',
    ]) {
      await lab.show(page, path)
      await expectNoHarm(page, path)
      const fields = await page.evaluate<string>(
        `[document.body.innerText, ...[...document.querySelectorAll('input')].map((one) => one.value)].join('\\n')`,
      )
      if (fields.includes(markup)) shown.push(path)
    }
    await lab.show(page, '/logs')
    await page.getByRole('button', { name: 'Logins' }).click()
    await page.getByText(markup, { exact: false }).first().waitFor()
    await expectNoHarm(page, 'log-ins')
    await lab.show(page, `/sub-users/${customer}`)
    await page.getByRole('button', { name: 'Logins' }).click()
    await page.getByText(markup, { exact: false }).first().waitFor()
    await expectNoHarm(page, 'logins of a customer')
    await page.getByRole('button', { name: 'Show tasks' }).click()
    await page.locator('.drawer').getByText(markup, { exact: false }).first().waitFor()
    await expectNoHarm(page, 'the drawer')
    await lab.picture(page, 'markup-wide')
    // These pages show the text. Other pages do not show it, because fields with a fixed format reject the text.
    expect(shown).to.include.members([`${at}/network`, `${at}/snapshots`, '/snapshots', '/tasks', '/api'])
    console.log(`      refused: ${refused.join(', ')}`)
    lab.expectNoComplaints()
    await page.context().close()
  })

  it('have no effect in the URLs of pages', async () => {
    const page = await lab.logIn({ username: 'grace' })
    const text = encodeURIComponent(markup)
    for (const path of [
      `/#/containers?text=${text}&status=${text}&host=${text}`,
      `/#/${markup}`,
      `/#/containers/${text}`,
      `/#/containers/${text}/${text}`,
      `/#/hosts/${text}`,
      `/#/webhooks/${text}`,
      `/#/sub-users/${text}`,
      '/#javascript:window.broken=1',
      `/console/${text}?mode=${text}`,
      '/console/%E0%A4%A',
      `/login?code=${text}`,
      `/setup#${text}`,
    ]) {
      await page.goto('about:blank')
      await page.goto(`${lab.gateway.url}${path}`)
      await page.locator(':is(h1, h2)').first().waitFor({ state: 'attached' })
      await settled(page)
      await expectNoHarm(page, path)
    }
    // The test opens addresses that do not exist, and the browser logs each as an error.
    const errors = lab.complaints.errors.filter((text) => !/status of 40[04]/.test(text))
    expect({ ...lab.complaints, errors }).to.deep.equal({ foreign: [], violations: [], errors: [] })
    await page.context().close()
  })
})
