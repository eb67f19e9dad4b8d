import { expect } from 'chai'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import { joinGateway } from '../../agent/enrollment/join.js'
import { HostStore } from '../../gateway/fleet/host-store.js'
import { installReportPath } from '../../shared/join-token.js'
import { eventually } from '../support/wait.js'
import { postToJoinEndpoint } from '../support/gateway/join-endpoint.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { freePort } from '../support/ports.js'
import { findingsOf, latinSentences, tooWide } from './page-checks.js'
import { openLab, type OpenOptions, type PanelLab } from './panel-lab.js'

/** The fields of the answer to POST /hosts that the tests use. */
interface CreatedHost {
  readonly host: { readonly id: string }
  readonly command: string
  readonly join_token: string
  readonly join_address: string
  readonly expires_at: string
}

const reason = 'port 7443 is in use by another program: nginx'
const texts = {
  command: 'Waiting for the command to be run on the host.',
  checking: 'Checking the host.',
  installing: 'Installing the agent. This may take a few minutes.',
  joining: 'The agent is joining the gateway.',
  waiting: 'The agent has joined. The gateway is connecting to it.',
  online: 'The host is ready.',
  failed: `The installation failed: ${reason}`,
} as const
type Step = keyof typeof texts

describe('the dialog for a new host in the panel', () => {
  let lab: PanelLab
  let page: Page
  let directory: string
  let hostId = ''
  let agent: LabAgent | undefined
  before(async () => {
    lab = await openLab()
    lab.forgetComplaints()
    directory = await mkdtemp(join(tmpdir(), 'btest-add-host-'))
  })
  after(() => rm(directory, { recursive: true, force: true }))
  afterEach(async () => {
    await page.context().close()
    await lab.gateway.fleet.hosts.removeHost(hostId, { force: true })
    await agent?.destroy()
    lab.expectNoComplaints()
  })

  /** Logs in, and adds a host on the page that lists the hosts. */
  async function add(name: string): Promise<{ created: CreatedHost; dialog: Locator }> {
    page = await lab.logIn()
    await lab.show(page, '/hosts')
    await page.getByRole('button', { name: 'Add a host', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.locator('#host-name').fill(name)
    const answered = page.waitForResponse((one) => one.request().method() === 'POST' && one.url().endsWith('/hosts'))
    await dialog.getByRole('button', { name: 'Add a host', exact: true }).click()
    const { data: created } = (await (await answered).json()) as { data: CreatedHost }
    hostId = created.host.id
    await dialog.locator('[data-secret]').waitFor()
    return { created, dialog }
  }

  /** Creates a host through the API and opens its page. */
  async function openPending(name: string, options?: OpenOptions): Promise<CreatedHost> {
    const { body } = await lab.gateway.request('POST', '/hosts', { body: { name } })
    const created = body.data as CreatedHost
    hostId = created.host.id
    page = await lab.logIn(options)
    await lab.show(page, `/hosts/${hostId}`)
    return created
  }

  /** Reports a step as the installation script does. */
  async function report({ join_token: token, join_address: address }: CreatedHost, step: Step): Promise<void> {
    const message = step === 'failed' ? reason : ''
    const { status } = await postToJoinEndpoint(address, installReportPath, JSON.stringify({ token, step, message }))
    expect(status).to.equal(200)
  }

  const shows = (scope: Locator | Page, step: Step): Promise<void> =>
    scope.getByText(texts[step], { exact: true }).waitFor()

  it('shows the installation command, and then each step until the host is ready, without a reload', async () => {
    const { created, dialog } = await add('step-by-step')
    await page.evaluate('window.isSamePage = true')
    expect(await dialog.locator('[data-secret]').innerText()).to.equal(created.command)
    await shows(dialog, 'command')
    for (const step of ['checking', 'installing', 'joining'] as const) {
      await report(created, step)
      await shows(dialog, step)
    }
    await lab.picture(page, 'add-host-wide')
    const port = await freePort()
    await joinGateway(created.join_token, directory, port)
    await report(created, 'waiting')
    await shows(dialog, 'waiting')
    agent = await LabAgent.start({ identityDir: directory, listen: `127.0.0.1:${port}` })
    await shows(dialog, 'online')
    await eventually(async () => {
      expect(await dialog.getByRole('listitem').count()).to.equal(6)
      expect(await dialog.locator('li.good').count()).to.equal(6)
    })
    const { body } = await lab.gateway.request('GET', `/hosts/${hostId}`)
    expect(body.data.address, 'from which it joined').to.equal(`127.0.0.1:${port}`)
    expect(await page.evaluate('window.isSamePage')).to.equal(true)
  })

  it('copies the installation command to the clipboard', async () => {
    const { created, dialog } = await add('copied')
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await dialog.getByRole('button', { name: 'Copy', exact: true }).click()
    await dialog.getByText('Copied', { exact: true }).waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).to.equal(created.command)
  })

  it('shows why an installation failed, and then the steps of the next attempt', async () => {
    const { created, dialog } = await add('failing')
    await report(created, 'checking')
    await shows(dialog, 'checking')
    await report(created, 'failed')
    await shows(dialog, 'failed')
    await lab.picture(page, 'add-host-failed-wide')
    await report(created, 'checking')
    await shows(dialog, 'checking')
  })

  it('shows a hint if the host has not reported anything for a minute', async () => {
    const { created, dialog } = await add('silent')
    const hint = dialog.getByText('The host has not reported anything yet.')
    await page.clock.install()
    await dialog.getByRole('button', { name: 'Done', exact: true }).click()
    await lab.show(page, `/hosts/${hostId}`)
    const answered = page.waitForResponse((one) => one.url().endsWith('/join-token'))
    await page.getByRole('button', { name: 'Create a new command' }).click()
    await dialog.getByText('The earlier command is then no longer valid.', { exact: true }).waitFor()
    await page.clock.pauseAt(Date.now() + 5000) // from here on, only the test moves the time of the page
    await dialog.getByRole('button', { name: 'Create a new command' }).click()
    const { data: renewed } = (await (await answered).json()) as { data: CreatedHost }
    await dialog.locator('[data-secret]').waitFor()
    await page.clock.runFor(50_000)
    expect(await hint.count()).to.equal(0)
    await page.clock.runFor(10_000)
    await hint.waitFor()
    expect(await hint.innerText())
      .to.contain(renewed.expires_at.slice(0, 16))
      .and.to.contain(renewed.join_address)
    await report(created, 'checking')
    await shows(dialog, 'checking')
    await hint.waitFor({ state: 'detached' })
  })

  it('continues on the page of the host, and this page can create a new command', async () => {
    const created = await openPending('at-its-page')
    await shows(page, 'command')
    for (const step of ['installing', 'failed'] as const) {
      await report(created, step)
      await shows(page, step)
    }
    await page.getByRole('button', { name: 'Create a new command' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Create a new command' }).click()
    await shows(dialog, 'command')
    expect(await dialog.locator('[data-secret]').innerText()).not.to.equal(created.command)
    await dialog.getByRole('button', { name: 'Done' }).click()
    await shows(page, 'failed')
  })

  /** Changes the time at which the newest command of the host expires to a past time, and reloads the page. */
  async function expire(): Promise<void> {
    await new HostStore(lab.gateway.store).update(hostId, (record) => ({ ...record, joinExpiresAtMs: 1 }))
    const status = async (): Promise<unknown> =>
      (await lab.gateway.request('GET', `/hosts/${hostId}`)).body.data.join_token_status
    await eventually(async () => expect(await status()).to.equal('expired'))
    await page.reload()
  }

  it('shows that the command has expired, and offers a new command', async () => {
    const { created, dialog } = await add('expired')
    await dialog.getByRole('button', { name: 'Done', exact: true }).click()
    await expire()
    const row = page.getByRole('row').filter({ hasText: 'expired' })
    await row.getByText('Command expired', { exact: true }).waitFor()
    await row.getByRole('link', { name: 'expired', exact: true }).click()
    const expired = page.getByText('The command expired before the host joined.')
    await expired.waitFor()
    expect(await page.getByText(texts.command).count()).to.equal(0)
    await page.getByRole('button', { name: 'Create a new command' }).click()
    expect(await dialog.locator('[data-secret]').innerText()).not.to.equal(created.command)
    await dialog.getByRole('button', { name: 'Done', exact: true }).click()
    await shows(page, 'command')
    expect(await expired.count()).to.equal(0)
  })

  it('permits a change of the host’s name before the address of the host is known', async () => {
    await openPending('no-address')
    await page.getByRole('button', { name: 'Edit', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.locator('#host-name').fill('renamed')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'renamed', exact: true }).waitFor()
  })

  it('is accessible, translated into Chinese, and fits the screen of a phone', async () => {
    const created = await openPending('on-a-phone', { language: 'zh', screen: 'phone' })
    await report(created, 'installing')
    await page.getByText('正在安装代理程序，可能需要几分钟。').waitFor()
    expect(await tooWide(page)).to.equal(false)
    expect(await findingsOf(page)).to.deep.equal([])
    await expire()
    await page.getByText('命令在该主机加入之前已过期。').waitFor()
    expect(await tooWide(page)).to.equal(false)
    expect(await findingsOf(page)).to.deep.equal([])
    await page.getByRole('button', { name: '新的命令' }).click()
    await page.getByText('正在等待在该主机上运行命令。').waitFor()
    await lab.picture(page, 'add-host-phone-zh')
    expect(await tooWide(page)).to.equal(false)
    expect(await findingsOf(page)).to.deep.equal([])
    expect(latinSentences(await page.locator('body').innerText())).to.deep.equal([])
  })
})
