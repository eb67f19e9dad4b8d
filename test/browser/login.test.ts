import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { makeAdmin, password } from '../support/gateway/browser.js'
import { forgetConfirmation } from '../support/gateway/forget-confirmation.js'
import { focused } from './page-checks.js'
import { failLogin, openLab, type PanelLab } from './panel-lab.js'
import { waitFor } from '../support/wait.js'

describe('the login of the panel', () => {
  let lab: PanelLab

  before(async function () {
    lab = await openLab()
    await makeAdmin(lab.gateway, 'ada')
  })

  it('stores no credentials that a script can read', async function () {
    const page = await lab.logIn()
    const [cookie = '', ...stored] = await page.evaluate<string[]>(
      '[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)]',
    )
    expect(cookie).to.equal('')
    const cookies = await page.context().cookies()
    expect(cookies.map(({ name }) => name)).to.include('berth')
    for (const { name, value, httpOnly, sameSite } of cookies) {
      expect([name, httpOnly, sameSite]).to.deep.equal([name, true, 'Strict'])
      expect(stored.join('')).not.to.include(value)
    }
    await page.context().close()
  })

  it('reports a wrong password, and shows a countdown after too many attempts', async function () {
    const page = await (await lab.open()).newPage()
    await page.goto(lab.gateway.url)
    const alert = page.getByRole('alert')
    await failLogin(page, 'ada')
    await alert.filter({ hasText: 'The user name or password is wrong.' }).waitFor()
    await lab.picture(page, 'login-wrong-wide')
    const waits = alert.filter({ hasText: /Try again in \d+ s/ })
    await waitFor(
      async () => {
        if (await waits.isVisible()) return true
        await failLogin(page, 'ada')
        return waits.isVisible()
      },
      { what: 'the limit' },
    )
    const secondsOf = async (): Promise<number> => Number(/in (\d+) s/.exec(await waits.innerText())?.[1])
    const first = await secondsOf()
    await waitFor(async () => (await secondsOf()) < first, { what: 'it counts down' })
    expect(await page.locator('button[type=submit]').isDisabled()).to.equal(true)
    await page.context().close()
  })

  it('is possible after the session has ended, and a filled form is still filled after the login', async function () {
    const page = await lab.logIn()
    await lab.show(page, '/containers/new')
    await page.locator('#name').fill('kept')
    const create = page.getByRole('button', { name: 'Create', exact: true })
    await waitFor(() => create.isEnabled(), { what: 'the images' })
    await page.context().clearCookies()
    // A script clicks the button, because a dialog covers it once the page has noticed the end of the session.
    await create.dispatchEvent('click')
    const dialog = page.getByRole('dialog')
    await dialog.locator('#password').fill(password)
    await lab.picture(page, 'login-again-wide')
    await dialog.getByRole('button', { name: 'Log in', exact: true }).click()
    await page.getByRole('heading', { name: /^(Creating kept|kept is running)$/ }).waitFor()
    await page.context().close()
  })

  describe('while a dialog is open', () => {
    /** Waits until a click on the middle of an element would hit it. */
    const onTop = async (page: Page, selector: string): Promise<void> => {
      await page.locator(selector).waitFor()
      const isOnTop = `(() => {
        const one = document.querySelector('${selector}')
        const { x, y, width, height } = one.getBoundingClientRect()
        return one.contains(document.elementFromPoint(x + width / 2, y + height / 2))
      })()`
      await waitFor(() => page.evaluate<boolean>(isOnTop), { what: `${selector} on top` })
    }

    async function openKeyForm(): Promise<Page> {
      const page = await lab.logIn()
      await lab.show(page, '/api')
      await page.getByRole('button', { name: 'Create API key', exact: true }).click()
      await page.locator('#key-name').fill('billing')
      return page
    }
    const submit = (page: Page): Promise<void> =>
      page.getByRole('dialog').getByRole('button', { name: 'Create API key' }).click()

    it('asks for the password on top of the dialog', async function () {
      const page = await openKeyForm()
      await forget(page)
      await submit(page)
      await onTop(page, '#prove-password')
      await focused(page.locator('#prove-password'))
      await lab.picture(page, 'prove-wide')
      await page.locator('#prove-password').fill(password)
      await page.getByRole('button', { name: 'Confirm', exact: true }).click()
      await onTop(page, '[data-secret]')
      await page.context().close()
    })

    it('returns to the dialog if the user cancels the password form', async function () {
      const page = await openKeyForm()
      await forget(page)
      await submit(page)
      await focused(page.locator('#prove-password'))
      await page.keyboard.press('Escape')
      await page.locator('#prove-password').waitFor({ state: 'detached' })
      await onTop(page, '#key-name')
      expect(await page.locator('#key-name').inputValue()).to.equal('billing')
      await page.context().close()
    })

    it('appears on top of the dialog after the session has ended', async function () {
      const page = await openKeyForm()
      await page.context().clearCookies()
      await submit(page)
      await onTop(page, '#password')
      await page.locator('#password').fill(password)
      await page.getByRole('button', { name: 'Log in', exact: true }).click()
      await page.locator('[data-secret]').waitFor()
      await page.context().close()
    })
  })

  async function forget(page: Page): Promise<void> {
    const cookies = await page.context().cookies()
    await forgetConfirmation(lab.gateway, cookies.find(({ name }) => name === 'berth')?.value ?? '')
  }

  it('is possible for a new administrator with a set-up link, which works only once', async function () {
    const { body } = await lab.gateway.request('POST', '/admins', { body: { username: 'grace' } })
    const link = `${lab.gateway.url}/setup#${body.data.setup_token}`
    const page = await (await lab.open()).newPage()
    await page.goto(link)
    await page.getByText('Choose a password for grace', { exact: false }).waitFor()
    await page.getByRole('heading', { name: 'Welcome, grace', exact: true }).waitFor()
    expect(await page.locator('#username').count(), 'the name is known').to.equal(0)
    await page.locator('#password').fill(password)
    await page.locator('#again').fill(password)
    await lab.picture(page, 'setup-wide')
    await page.waitForURL(`${lab.gateway.url}/setup`) // without the token
    await page.getByRole('button', { name: 'Set the password', exact: true }).click()
    await page.locator('#main-content h1').waitFor()
    await page.context().clearCookies()
    await page.goto('about:blank')
    await page.goto(link)
    await page.getByRole('alert').filter({ hasText: 'already used' }).waitFor()
    await page.context().close()
  })
})
