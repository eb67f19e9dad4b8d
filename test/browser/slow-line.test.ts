import { expect } from 'chai'
import { makeAdmin } from '../support/gateway/browser.js'
import { waitFor } from '../support/wait.js'
import { fillLogin, openLab, type PanelLab } from './panel-lab.js'

/** A slow connection: 400 kbit/s, and 400 ms until an answer begins. */
const slow = { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 }

/** Maximum number of bytes to load. The slow connection transfers this number in five seconds. */
const most = { bytes: 250_000 }

describe('the panel over a slow connection', function () {
  let lab: PanelLab

  before(async () => {
    lab = await openLab()
    await lab.gateway.fleet.work('host-a')
  })

  it('shows the login page soon, and creates only one guest even after a double click', async () => {
    await makeAdmin(lab.gateway, 'traveller')
    const page = await (await lab.open()).newPage()
    page.context().setDefaultTimeout(120_000)
    const devtools = await page.context().newCDPSession(page)
    await devtools.send('Network.enable')
    await devtools.send('Network.emulateNetworkConditions', slow)
    let bytes = 0
    devtools.on('Network.loadingFinished', ({ encodedDataLength }) => (bytes += encodedDataLength))
    const began = performance.now()
    await page.goto(lab.gateway.url, { waitUntil: 'commit' })
    await page.locator('form button[type=submit]').waitFor()
    const ms = Math.round(performance.now() - began)
    console.log(`      the log-in is there after ${ms} ms, 10 s are promised, and ${bytes} bytes`)
    expect(bytes).to.be.lessThan(most.bytes)
    await fillLogin(page, 'traveller')
    await page.locator('#main-content h1').waitFor()
    await page.goto(`${lab.gateway.url}/#/containers/new`)
    await page.locator('#name').fill('once')
    const create = page.getByRole('button', { name: 'Create', exact: true })
    await waitFor(() => create.isEnabled(), { what: 'the images are there' })
    await create.dblclick()
    await page.getByRole('heading', { name: /^(Creating once|once is running)$/ }).waitFor()
    const { body } = await lab.gateway.request('GET', '/containers')
    expect((body.data as { name: string }[]).filter(({ name }) => name === 'once')).to.have.length(1)
    await page.context().close()
  })
})
