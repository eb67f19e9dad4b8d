import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { eventually, waitFor } from '../support/wait.js'
import { openLab, type PanelLab } from './panel-lab.js'

/** Script that reads the id and the value of every form control on the page. */
const readForm = `[...document.querySelectorAll('#main-content :is(input, select, textarea)')].map((one, at) => [
  one.id || one.name || String(at), one.type === 'radio' || one.type === 'checkbox' ? one.checked : one.value,
])`

describe('the language of the panel', function () {
  let lab: PanelLab
  before(async () => {
    lab = await openLab()
  })

  async function choose(page: Page, from: RegExp, to: string): Promise<void> {
    await page.getByLabel(from).click()
    await page.getByRole('menuitem', { name: to, exact: true }).click()
  }

  it('can be changed and is stored, and a change keeps a half-filled form', async () => {
    const page = await lab.logIn()
    await lab.show(page, '/containers/new')
    // The form has all its fields when the images are known.
    await waitFor(() => page.getByRole('button', { name: 'Create', exact: true }).isEnabled(), { what: 'the images' })
    await page.locator('#name').fill('half-filled')
    await page.locator('#ram').fill('1536')
    await page.locator('input[name=size]').nth(1).focus()
    await page.getByText('Network, quota and expiry').click()
    const filled = await page.evaluate(readForm)
    const chooseChinese = async (): Promise<void> => {
      await choose(page, /^Account:/, '中文')
      await page.getByRole('button', { name: '创建', exact: true }).waitFor()
    }
    await chooseChinese()
    await eventually(async () => expect(await page.evaluate('document.documentElement.lang')).to.equal('zh-CN'))
    expect(await page.evaluate(readForm)).to.deep.equal(filled)
    expect(await page.locator('#name').inputValue()).to.equal('half-filled')
    await lab.picture(page, 'create-half-filled-zh')
    await choose(page, /^账户：/, 'English')
    await page.getByRole('button', { name: 'Create', exact: true }).waitFor()
    expect(await page.evaluate(readForm)).to.deep.equal(filled)
    await chooseChinese()
    await page.reload()
    await page.getByRole('heading', { name: '新建实例', exact: true }).waitFor()
    await page.context().close()
  })

  it('can be changed before the login, and a change keeps the filled form', async () => {
    const page = await (await lab.open()).newPage()
    await page.goto(lab.gateway.url)
    await page.locator('#username').fill('half')
    await page.getByRole('button', { name: '中文' }).click()
    await page.getByRole('button', { name: '登录', exact: true }).waitFor()
    expect(await page.locator('#username').inputValue()).to.equal('half')
    await page.context().close()
  })
})
