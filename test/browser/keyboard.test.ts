import { expect } from 'chai'
import type { Locator, Page } from 'playwright-core'
import { makeAdmin, password } from '../support/gateway/browser.js'
import { waitFor } from '../support/wait.js'
import { focused } from './page-checks.js'
import { openLab, type PanelLab } from './panel-lab.js'
import { TerminalPage } from './terminal-page.js'

/** Script that reports whether the focus is visible as an outline around the element or its container. */
const readFocus = `(() => {
  const one = document.activeElement
  const drawn = (element) => {
    if (!element) return false
    const { outlineStyle, outlineWidth } = getComputedStyle(element)
    return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1
  }
  const isSomewhere = one !== null && one !== document.body
  return {
    isSeen: isSomewhere && (drawn(one) || drawn(one.closest('.surface, .choice'))),
    what: one ? one.outerHTML.slice(0, 120) : 'nothing',
  }
})()`

/** The panel must be usable without a mouse, and the focus must always be visible. */
describe('the panel with only a keyboard', function () {
  let lab: PanelLab
  let page: Page

  before(async () => {
    lab = await openLab()
    await lab.gateway.fleet.work('host-a')
    await makeAdmin(lab.gateway, 'typist')
    page = await (await lab.open()).newPage()
    await TerminalPage.prepare(page.context())
    lab.forgetComplaints()
  })
  after(() => page.context().close())

  async function expectSeen(): Promise<void> {
    const { isSeen, what } = await page.evaluate<{ isSeen: boolean; what: string }>(readFocus)
    expect(isSeen, `seen: ${what}`).to.equal(true)
  }
  const press = (key: string): Promise<void> => page.keyboard.press(key)

  /** Presses Tab until the element, which must be enabled, has the focus. Fails if the focus is invisible after any key. */
  async function tabTo(target: Locator): Promise<void> {
    await waitFor(() => target.isEnabled(), { what: String(target) })
    for (let steps = 0; steps < 80; steps++) {
      await press('Tab')
      await expectSeen()
      if (await hasFocus(target)) return
    }
    expect.fail(`not reached: ${String(target)}`)
  }
  const hasFocus = async (target: Locator): Promise<boolean> => (await target.and(page.locator(':focus')).count()) === 1

  it('permits the login, and has a link that skips to the content', async () => {
    await page.goto(lab.gateway.url)
    await focused(page.locator('#username'))
    await page.keyboard.type('typist')
    await press('Tab')
    await page.keyboard.type(password)
    await press('Enter')
    await page.locator('#main-content h1').waitFor()
    await tabTo(page.getByRole('link', { name: 'Skip to the content' }))
    await press('Enter')
    await waitFor(() => hasFocus(page.locator('#main-content')), { what: 'the focus on the content' })
  })

  it('permits the creation of a guest, and the use of its terminal', async () => {
    for (const key of ['g', 'c']) await press(key)
    await page.getByRole('heading', { name: 'Guests', level: 1, exact: true }).waitFor()
    await tabTo(page.locator('#main-content').getByRole('link', { name: 'New guest' }).first())
    await press('Enter')
    await tabTo(page.locator('#name'))
    await page.keyboard.type('by-keys')
    await tabTo(page.getByRole('button', { name: 'Create', exact: true }))
    await press('Enter')
    await page.getByText('Done', { exact: true }).first().waitFor()
    await tabTo(page.getByRole('link', { name: 'Open guest' }))
    await press('Enter')
    await page.getByRole('heading', { name: 'by-keys', exact: true }).waitFor()
    await tabTo(
      page
        .getByRole('navigation', { name: 'Sections of the guest' })
        .getByRole('link', { name: 'Console', exact: true }),
    )
    await press('Enter')
    const view = new TerminalPage(page)
    await view.state('open')
    await page.locator('.xterm-helper-textarea').waitFor({ state: 'attached' })
    await waitFor(() => hasFocus(page.locator('.xterm-helper-textarea')), { what: 'one can type' })
    await expectSeen()
    await lab.picture(page, 'console-focus-wide')
    await view.type('ls')
    await press('Tab')
    await press('Enter')
    const { consoles } = lab.gateway.fleet.agentOf('host-a').host
    await waitFor(() => consoles.terminals.at(-1)!.input === 'ls\t\r', { what: 'Tab is the guest’s' })
    await press('F6')
    await focused(page.locator('.console .bar'))
    await expectSeen()
  })

  it('moves the focus back to the menu button after a dialog, and permits the deletion of a guest', async () => {
    const more = page.getByRole('button', { name: 'Actions for by-keys' })
    await more.focus()
    await focused(more)
    const openDialog = async (): Promise<void> => {
      await press('Enter')
      await page.getByRole('menuitem', { name: 'Delete', exact: true }).waitFor()
      await focused(page.getByRole('menu')) // until then, the button would receive the keys
      await press('End')
      await press('Enter')
      await focused(page.locator('#confirm-typed'))
    }
    await openDialog()
    for (let steps = 0; steps < 8; steps++) {
      await press('Tab')
      await expectSeen()
      const isInside = await page.evaluate('document.activeElement.closest("[role=dialog]") !== null')
      expect(isInside, 'the focus stays in the dialog').to.equal(true)
    }
    await press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await waitFor(() => hasFocus(more), { what: 'the focus is back where it was' })
    await expectSeen()
    await openDialog()
    await tabTo(page.locator('#confirm-typed'))
    await page.keyboard.type('by-keys')
    await press('Enter')
    await page.getByRole('heading', { name: 'Guests', level: 1, exact: true }).waitFor()
    await waitFor(async () => (await lab.gateway.request('GET', '/containers/by-keys')).status === 404, {
      what: 'deleted',
    })
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    lab.expectNoComplaints()
  })

  it('shows its shortcuts, and opens the search with one of them', async () => {
    await press('?')
    const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
    await help.getByText('Find a page, a guest, an address or a port').waitFor()
    await lab.picture(page, 'keys-wide')
    await press('Escape')
    await help.waitFor({ state: 'detached' })
    await press('Control+k')
    await focused(page.getByRole('combobox', { name: /^Find a page/ }))
    await page.keyboard.type('images')
    await page.getByRole('option', { name: 'Images', selected: true }).waitFor()
    await press('Enter')
    await page.getByRole('heading', { name: 'Images', level: 1, exact: true }).waitFor()
    await page
      .getByRole('navigation', { name: 'Main navigation' })
      .getByRole('link', { name: 'Tasks', exact: true })
      .click()
    await focused(page.locator('#main-content'))
    await press('?')
    await help.waitFor()
    await page.goBack()
    await help.waitFor({ state: 'detached' })
    await page.goForward()
    await page.locator('[data-announced]').filter({ hasText: 'Tasks' }).waitFor({ state: 'attached' })
  })
})
