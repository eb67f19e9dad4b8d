import { mkdirSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { PanelLab } from './panel-lab.js'
import { waitFor } from '../support/wait.js'

const hosts = ['frankfurt-1', 'helsinki-2'] as const
const images = ['debian-12', 'ubuntu-24.04', 'alpine-3.22'] as const
/** Limits of guests, by a name for their size. */
const sizes = {
  S: { vcpuMilli: 1000, ramMb: 1024, diskGb: 10 },
  M: { vcpuMilli: 2000, ramMb: 2048, diskGb: 20 },
  L: { vcpuMilli: 4000, ramMb: 4096, diskGb: 40 },
} as const
const noRates = { networkDownMbps: 0, networkUpMbps: 0, ioReadMbps: 0, ioWriteMbps: 0 }
const guests = [
  ['shop', 'running', 'debian-12', 'L', 0],
  ['shop-db', 'running', 'debian-12', 'L', 0],
  ['mail', 'running', 'debian-12', 'M', 212],
  ['ci-runner-1', 'running', 'ubuntu-24.04', 'M', 30],
  ['ci-runner-2', 'stopped', 'ubuntu-24.04', 'M', 30],
  ['blog', 'running', 'alpine-3.22', 'S', 96],
  ['vpn', 'running', 'alpine-3.22', 'S', 0],
  ['staging', 'stopped', 'debian-12', 'M', 5],
  ['wiki', 'running', 'ubuntu-24.04', 'S', 96],
] as const
const dayMs = 86_400_000
const mostBytes = 150 * 1024

/** Takes the pictures for README and docs with a separate fleet. `docs/pictures` contains copies of them. */
describe('pictures of the panel', function () {
  let lab: PanelLab
  let page: Page
  let shop: number
  let shopUuid: string

  before(async () => {
    mkdirSync(out, { recursive: true })
    lab = await PanelLab.start({ hosts })
    const { fleet } = lab.gateway
    for (const host of hosts) {
      for (const image of images) fleet.agentOf(host).host.images.add(image)
      await fleet.work(host)
    }
    for (const [at, [name, status, templateId, size, days]] of guests.entries()) {
      const limits = { ...sizes[size], ...noRates }
      const expiresAtMs = days === 0 ? 0 : Date.now() + days * dayMs
      const { id, uuid } = await fleet.addGuest({ name, status, templateId, limits, expiresAtMs }, hosts[at % 2])
      if (name === 'shop') [shop, shopUuid] = [id, uuid]
    }
    await lab.gateway.request('PUT', `/containers/${shop}/firewall`, {
      body: {
        enabled: true,
        default_action: 'DROP',
        rules: [{ direction: 'in', protocol: 'tcp', action: 'ACCEPT', port: '80,443' }],
      },
    })
    const { body } = await lab.gateway.request('POST', `/containers/${shop}/restart`, { body: {} })
    await waitFor(() => fleet.view.findOperation(String(body.data.task_id))?.operation.status === 'done', {
      what: 'restarted',
    })
    await lab.gateway.request('POST', `/containers/${shop}/port-mappings`, {
      body: { protocol: 'tcp', container_port: 443, host_port: 20_443, description: 'web' },
    })
    await lab.gateway.request('POST', `/containers/${shop}/snapshots`, {
      body: { description: 'before 2.4' },
    })
    await lab.gateway.request('PUT', `/containers/${shop}/resource-limit`, {
      body: { network_down_mbps: 500, network_up_mbps: 200 },
    })
    await crash()
    page = await lab.logIn({ username: 'ada' })
  })
  after(() => lab.close())

  /** Lets the guest `shop` crash, and waits until the agent has started it again. */
  async function crash(): Promise<void> {
    const { driver } = lab.gateway.fleet.agentOf(hosts[0]).host
    driver.end(shopUuid, 'crash')
    const restarted = async (): Promise<boolean> => {
      const { body } = await lab.gateway.request('GET', `/containers/${shop}/timeline`)
      return (body.data as { kind: string }[]).some(({ kind }) => kind === 'restart')
    }
    await waitFor(async () => driver.running.has(shopUuid) && (await restarted()), { what: 'started again' })
  }

  async function take(name: string): Promise<void> {
    await waitFor(async () => (await page.locator('[data-sonner-toast]').count()) === 0, {
      what: 'no notice',
    })
    await page.mouse.move(0, 0)
    const path = join(out, `readme-${name}.png`)
    await page.screenshot({ path })
    expect(statSync(path).size, name).to.be.lessThan(mostBytes)
  }

  it('show the list of guests', async () => {
    await lab.show(page, '/containers')
    await page.getByText('9 of 9').waitFor()
    await take('guests')
  })

  it('show why a guest cannot be reached', async () => {
    await lab.show(page, `/containers/${shop}`)
    await page.getByRole('button', { name: 'Why can’t I connect?' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Allow port 22' }).waitFor()
    await take('why')
    await dialog.getByRole('button', { name: 'Allow port 22' }).click()
    await dialog.getByText('Everything is in order', { exact: false }).waitFor()
    await page.keyboard.press('Escape')
  })

  it('show the timeline of a guest', async () => {
    await lab.show(page, `/containers/${shop}/activity`)
    await page.getByText('Firewall changed').first().waitFor()
    await take('timeline')
  })

  it('show the creation of a guest in the dark theme', async () => {
    await page.emulateMedia({ colorScheme: 'dark' })
    await lab.show(page, '/containers/new')
    await page.locator('#name').fill('shop-2')
    await take('create')
  })
})
const out = resolve('test/browser/out')
