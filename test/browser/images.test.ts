import { randomBytes } from 'node:crypto'
import { expect } from 'chai'
import type { Locator, Page } from 'playwright-core'
import { BerthError } from '../../shared/errors.js'
import { eventually } from '../support/wait.js'
import { ImageServer } from '../support/guests/image-server.js'
import { coveredByNotices } from './page-checks.js'
import { PanelLab, type OpenOptions } from './panel-lab.js'

const id = 'alpine-3.22'

/** Answers the next read only when another read has begun, and the other read only afterwards, as on a slow line. */
async function delayRead(page: Page, url: string): Promise<void> {
  let [begin, answered]: [() => void, () => void] = [() => undefined, () => undefined]
  const hasBegun = new Promise<void>((resolve) => (begin = resolve))
  const isAnswered = new Promise<void>((resolve) => (answered = resolve))
  let count = 0
  await page.route(url, async (route) => {
    if (++count > 2) return route.continue()
    if (count === 2) begin()
    if (count === 1) await hasBegun
    else await isAnswered
    await route.fulfill({ response: await route.fetch() })
    answered()
  })
}

/** A test server aborts real downloads. */
describe('images in the panel after a failed download', function () {
  let lab: PanelLab
  let server: ImageServer

  before(async () => {
    server = await ImageServer.start()
    server.add('alpine.tar.xz', randomBytes(1_000_000))
    server.offered.push({ distro: 'alpine', release: '3.22', file: 'alpine.tar.xz' })
    lab = await PanelLab.start({ agentConfig: { images: server.settings } })
    await lab.gateway.fleet.work('host-a')
  })
  after(async () => {
    await lab.close()
    await server.close()
  })
  beforeEach(async () => {
    server.manners = { cutAfter: 0 }
    if ((await row())['downloaded'] === true) await lab.gateway.request('DELETE', `/images/delete?template_id=${id}`)
  })
  afterEach(() => lab.expectNoComplaints())

  const row = async (): Promise<Record<string, unknown>> => {
    const { body } = await lab.gateway.request('GET', '/images')
    return (body.data as Record<string, unknown>[]).find((one) => one['id'] === id)!
  }
  async function open(options: OpenOptions = {}): Promise<{ page: Page; line: Locator }> {
    const page = await lab.logIn(options)
    await lab.show(page, '/images')
    return { page, line: page.getByRole('row').filter({ has: page.getByText(id, { exact: true }) }) }
  }

  it('show the reason, and can be downloaded again', async () => {
    const { page, line } = await open()
    await line.getByRole('button', { name: 'Download', exact: true }).click()
    await line.getByText('The download failed.').waitFor()
    await lab.picture(page, 'image-failed-wide')
    await lab.show(page, '/tasks')
    const task = page.getByRole('row').filter({ hasText: id })
    await task.getByText('Failed', { exact: true }).waitFor()
    await lab.picture(page, 'task-failed-wide')
    await task.getByRole('link', { name: id }).click()
    server.manners = {}
    await line.getByRole('button', { name: 'Try again' }).click()
    await line.getByText('Ready', { exact: true }).waitFor()
    await eventually(async () => expect(await line.innerText()).not.to.include('failed'))
    await page.context().close()
  })

  it('show the reason in the language of the user', async () => {
    const { page, line } = await open({ language: 'zh', screen: 'phone' })
    await line.getByRole('button', { name: /下载|重试/ }).click()
    await line.getByText('下载失败。').waitFor()
    await lab.picture(page, 'image-failed-phone')
    await lab.show(page, '/tasks')
    await page.getByRole('row').filter({ hasText: id }).first().getByText('下载失败。').waitFor()

    await lab.show(page, '/containers/new')
    await page.locator('[data-sonner-toast]').waitFor()
    for (const to of [0, 400]) {
      await page.evaluate(`scrollTo(0, ${to})`)
      expect(await coveredByNotices(page), `controls below the notice, scrolled by ${to}`).to.deep.equal([])
      await lab.picture(page, `notice-phone-${to}`)
    }
    await page.locator('.top .only-phone').click()
    await page.locator('.side.open').waitFor()
    expect(await coveredByNotices(page), 'in the navigation').to.deep.equal([])
    await page.keyboard.press('Escape')
    await page.locator('[data-sonner-toast]').waitFor({ state: 'detached' })
    expect(await page.evaluate('getComputedStyle(document.body).paddingTop'), 'room after the notice').to.equal('0px')
    await page.context().close()
  })

  it('are listed once with their hosts, can be filtered, and can be downloaded on all hosts', async () => {
    const { body } = await lab.gateway.request('GET', '/images')
    const own = (body.data as Record<string, unknown>[]).filter((one) => one['supported'] === true)
    const absent = { downloaded: false, downloading: false, enabled: true, error: '' }
    const data = ['host-a', 'host-b', 'host-c'].flatMap((host) =>
      own.map((one) => ({ ...one, ...absent, host_id: host, downloaded: host === 'host-c' && one['id'] === id })),
    )
    const page = await lab.logIn()
    await page.route('**/api/v1/images?all_hosts=true', (route) => route.fulfill({ json: { success: true, data } }))
    const sent: unknown[] = []
    await page.route('**/api/v1/images/download*', (route) => {
      sent.push([new URL(route.request().url()).search, route.request().postDataJSON()])
      return route.fulfill({ status: 202, json: { success: true, message: 'download queued', tasks: [] } })
    })
    await lab.show(page, '/images')
    const line = page.getByRole('row').filter({ has: page.getByText(id, { exact: true }) })
    expect(await line.count(), 'one row for each system').to.equal(1)
    await line.getByRole('button', { name: 'host-c: Ready', exact: true }).click()
    await line.getByText('Ready', { exact: true }).waitFor()
    await line.getByRole('button', { name: 'host-b: Not downloaded', exact: true }).click()
    await line.getByRole('button', { name: 'Download', exact: true }).click()
    await line.getByRole('button', { name: 'Download on all hosts', exact: true }).click()
    await eventually(async () =>
      expect(sent).to.deep.equal([
        ['?host_id=host-b', { template_id: id }],
        ['', { template_id: id }],
      ]),
    )
    const rows = page.locator('tbody tr')
    await page.getByLabel('Status', { exact: true }).selectOption({ label: 'Ready' })
    await eventually(async () => expect(await rows.count()).to.equal(1))
    await page.getByLabel('Host', { exact: true }).selectOption({ label: 'host-b' })
    await page.getByText('No results.', { exact: true }).waitFor()
    await lab.picture(page, 'images-filtered-wide')
    await page.context().close()
  })

  it('are downloaded for a new guest, which is then created from them', async () => {
    const page = await lab.logIn()
    await lab.show(page, '/containers/new')
    await page.getByRole('button', { name: 'More systems', exact: true }).click()
    await page.locator('input[name=family][value=alpine]').check()
    await page.locator('select#image').selectOption(id)
    await page.locator('#name').fill('downloaded-first')
    const create = page.getByRole('button', { name: 'Download and create', exact: true })
    await create.click()
    await page
      .getByRole('alert')
      .filter({ hasText: /download failed|image server/i })
      .waitFor()
    expect(await page.locator('#name').inputValue(), 'after a failed download').to.equal('downloaded-first')

    server.manners = { stallAfter: 1000 }
    await delayRead(page, '**/api/v1/images?all_hosts=true')
    await create.click()
    await page.getByText(/^Downloading .*: \d+ %$/).waitFor()
    await lab.picture(page, 'create-download-wide')
    await page.getByRole('button', { name: 'Cancel', exact: true }).click()
    await create.waitFor()
    await eventually(async () => expect(await row()).to.include({ downloading: false, downloaded: false }))
    expect((await lab.gateway.request('GET', '/containers/downloaded-first')).status, 'not created').to.equal(404)

    server.manners = {}
    await create.click()
    await page.getByRole('heading', { name: 'downloaded-first is running', exact: true }).waitFor()
    const { body } = await lab.gateway.request('GET', '/containers/downloaded-first')
    expect(body.data.template).to.equal(id)
    expect((await lab.gateway.request('DELETE', '/containers/downloaded-first/delete')).status).to.equal(202)
    await page.context().close()
  })

  it('cannot be used for a new guest, and the form stays filled for another attempt', async () => {
    const { faults } = lab.gateway.fleet.agentOf('host-a').host
    const broken = (): void => {
      throw new BerthError('invalid', 'image_invalid', 'unpack the image: unexpected end of file')
    }
    const page = await lab.logIn()
    await lab.show(page, '/containers/new')
    await page.locator('#name').fill('from-broken')
    await page.locator('#ram').fill('192')
    const create = page.getByRole('button', { name: 'Create', exact: true })
    const again = page.getByRole('button', { name: 'Try again' })
    faults.clone = broken
    await create.click()
    await page.getByRole('alert').filter({ hasText: 'unexpected end of file' }).waitFor()
    await lab.picture(page, 'create-failed-wide')
    expect(await page.locator('[data-secret]').count(), 'no password of a guest that was not created').to.equal(0)
    await page.getByText(/Task [0-9a-f-]{36}/).waitFor()
    await page.getByRole('listitem').filter({ hasText: 'Create failed: from-broken' }).waitFor() // a notice
    await page.getByRole('button', { name: 'Back to the form' }).click()
    await eventually(async () => {
      expect(await page.locator('#name').inputValue()).to.equal('from-broken')
      expect(await page.locator('#ram').inputValue()).to.equal('192')
    })
    await create.click()
    await again.waitFor()
    delete faults.clone
    await again.click()
    await page.getByText('Done', { exact: true }).first().waitFor()
    expect(await page.locator('[data-secret]').innerText()).to.match(/^\S{8,}$/)
    await page.context().close()
  })
})
