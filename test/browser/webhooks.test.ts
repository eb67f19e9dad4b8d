import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { eventually } from '../support/wait.js'
import { findingsOf } from './page-checks.js'
import { fillLogin, PanelLab } from './panel-lab.js'
import { SubUserCalls } from '../support/gateway/sub-user-calls.js'
import { answers, expectedSignature, takes, WebhookReceiver } from '../support/gateway/webhook-receiver.js'

describe('webhooks and activity logs in the panel', () => {
  let lab: PanelLab
  let receiver: WebhookReceiver

  before(async function () {
    lab = await PanelLab.start()
    receiver = await WebhookReceiver.start()
    await lab.gateway.fleet.addGuest({ name: 'web-1' })
  })
  after(async () => {
    await receiver.down()
    await lab.close()
  })
  afterEach(() => lab.expectNoComplaints())

  const rowsOf = (page: Page, text: string) => page.locator('table.rows tbody tr').filter({ hasText: text })

  it('let the user create a webhook with a secret that is shown once, test it, repeat a delivery, and delete it', async function () {
    const page = await lab.logIn()
    await lab.show(page, '/webhooks')
    await page.getByRole('button', { name: 'Add a webhook', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.locator('#webhook-name').fill('billing')
    await dialog.locator('#webhook-url').fill('http://10.0.0.1/hook')
    await dialog.getByLabel('Hosts').uncheck()
    await dialog.getByLabel('Tasks').uncheck()
    await dialog.getByText('Single events', { exact: true }).click()
    await dialog.getByLabel('task.failed', { exact: true }).check()
    expect(await dialog.getByLabel('guest.moved', { exact: true }).isDisabled(), 'part of a group').to.equal(true)
    await dialog.getByRole('button', { name: 'Add a webhook' }).click()
    await dialog.getByRole('alert').filter({ hasText: 'not a public address' }).waitFor()
    await dialog.locator('#webhook-url').fill(receiver.url)
    await lab.picture(page, 'webhook-add-wide')
    await dialog.getByRole('button', { name: 'Add a webhook' }).click()
    await page.locator('[data-secret]').waitFor()
    const secret = await page.locator('[data-secret]').innerText()
    await page.getByRole('button', { name: 'Done' }).click()
    await rowsOf(page, 'billing').getByText('Guests, Security alerts, Maintenance, task.failed').waitFor()

    await page.getByRole('link', { name: 'billing', exact: true }).click()
    receiver.answer = answers(500)
    await page.getByRole('button', { name: 'Send test event' }).click()
    await rowsOf(page, 'webhook.test').getByText('Retrying').waitFor()
    receiver.answer = takes
    await rowsOf(page, 'webhook.test').getByText('Delivered').waitFor()
    const message = await receiver.type('webhook.test')
    expect(message.headers['webhook-signature']).to.equal(expectedSignature(secret, message))
    await lab.picture(page, 'webhook-deliveries-wide')
    await page.getByRole('button', { name: 'Send again' }).click()
    await eventually(async () => expect(await rowsOf(page, 'webhook.test').getByText('Delivered').count()).to.equal(2))
    expect(await page.locator('body').innerText()).not.to.include(secret)

    await lab.show(page, '/webhooks')
    await rowsOf(page, 'billing').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByText('No webhooks yet.').waitFor()
    await page.context().close()
  })

  for (const [language, add] of [
    ['en', 'Add a webhook'],
    ['zh', '添加 Webhook'],
  ] as const)
    it(`show at the field of the dialog why the API refused it, in the language ${language}`, async () => {
      const page = await lab.logIn({ language })
      await lab.show(page, '/webhooks')
      await page.getByRole('button', { name: add, exact: true }).click()
      const dialog = page.getByRole('dialog')
      await dialog.locator('#webhook-name').fill('refused')
      await dialog.locator('#webhook-url').fill('http://10.0.0.1/hook')
      await dialog.getByRole('button', { name: add, exact: true }).click()
      const error = dialog.locator('#webhook-url-error')
      await error.waitFor()
      if (language === 'zh') expect(await error.innerText()).to.match(/\p{Script=Han}/u)
      else expect(await error.innerText()).to.include('not a public address')
      const url = dialog.locator('#webhook-url')
      expect(await url.getAttribute('aria-describedby')).to.equal('webhook-url-error')
      expect(await page.evaluate<string>('document.activeElement.id')).to.equal('webhook-url')
      expect(await dialog.getByRole('alert').count(), 'messages').to.equal(1)
      expect(await findingsOf(page)).to.deep.equal([])
      await lab.picture(page, `webhook-refused-${language}`)
      await page.context().close()
    })

  it('show customers their own actions, and administrators the actions of each customer', async function () {
    const made = await new SubUserCalls(lab.gateway).make({ container_name: 'web-1', username: 'clara' })
    const customer = await (await lab.open()).newPage()
    await customer.goto(lab.gateway.url)
    await fillLogin(customer, 'clara', made.password)
    await customer.locator('#main-content h1').waitFor()
    await lab.show(customer, '/containers/web-1')
    await customer.getByRole('button', { name: 'Stop', exact: true }).click()
    await customer.getByRole('dialog').getByRole('button', { name: 'Stop', exact: true }).click()
    await customer.getByRole('dialog').waitFor({ state: 'detached' }) // the request has been answered
    await lab.show(customer, '/')
    await customer.getByRole('link', { name: 'Activity', exact: true }).first().click()
    await rowsOf(customer, 'Stop requested').getByText('web-1').waitFor()
    await lab.picture(customer, 'activity-wide')
    await customer.getByRole('button', { name: 'Logins' }).click()
    await rowsOf(customer, 'Password').first().waitFor()
    await customer.context().close()

    const page = await lab.logIn()
    await lab.show(page, '/sub-users')
    await page.getByRole('link', { name: 'clara' }).click()
    await rowsOf(page, 'Stop requested').waitFor()
    await page.getByRole('button', { name: 'Logins' }).click()
    await rowsOf(page, 'Password').first().waitFor()
    await page.context().close()
  })
})
