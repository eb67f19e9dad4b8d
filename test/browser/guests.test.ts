import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { focused, settled } from './page-checks.js'
import { openLab, type PanelLab } from './panel-lab.js'
import { eventually, waitFor } from '../support/wait.js'

/**
 * Script that opens the list, and keeps the page busy until the list is about to write its filter into the URL. Just
 * before this, the script changes the URL.
 */
const followImmediately = `(async () => {
  location.hash = '#/containers'
  while (!document.querySelector('.count-line')) await new Promise((resolve) => setTimeout(resolve))
  const { port1, port2 } = new MessageChannel()
  port1.onmessage = () => (location.hash = '#/containers?text=linked')
  port2.postMessage('')
  for (const began = performance.now(); performance.now() - began < 300; );
})()`

describe('guests in the panel', () => {
  let lab: PanelLab
  let page: Page

  before(async function () {
    lab = await openLab()
    await lab.gateway.fleet.work('host-a')
    page = await lab.logIn()
  })
  const names = async (query = ''): Promise<string[]> => {
    const { body } = await lab.gateway.request('GET', `/containers${query}`)
    return (body.data as { name: string }[]).map(({ name }) => name)
  }

  it('are created only once even after a double click, with a password that is shown only once', async function () {
    await lab.show(page, '/containers/new')
    await page.locator('#name').fill('made')
    await eventually(async () => expect(await page.locator('[data-curl]').innerText()).to.include('"name": "made"'))
    await page.getByRole('button', { name: 'Create', exact: true }).dblclick()
    await page.locator('[data-secret]').waitFor()
    const secret = await page.locator('[data-secret]').innerText()
    expect(secret).to.match(/^\S{8,}$/)
    await page.getByText('Done', { exact: true }).first().waitFor()
    await page.getByRole('button', { name: 'Copy the SSH command', exact: true }).waitFor()
    await page.getByRole('link', { name: 'Map ports', exact: true }).waitFor()
    await page.getByRole('heading', { name: 'made is running', exact: true }).waitFor()
    await page.getByRole('button', { name: 'Assign to customer', exact: true }).waitFor()
    await lab.picture(page, 'created-wide')
    expect((await names()).filter((name) => name === 'made')).to.have.length(1)
    await page.getByRole('link', { name: 'Open guest' }).click()
    await page.getByRole('heading', { name: 'made', exact: true }).waitFor()
    expect(await page.locator('body').innerText()).not.to.include(secret)
  })

  it('can be created together, each with an owner, a firewall and daily backups', async () => {
    const body = { container_name: 'made', username: 'owner-of-several' }
    const customer = await lab.gateway.request('POST', '/sub-user/create', { body })
    const target = { name: 'for-several', type: 'local', path: '/srv/several', encryption_password: 'a-long-password' }
    expect((await lab.gateway.request('POST', '/backup-targets', { body: target })).status).to.equal(201)
    await lab.show(page, '/containers/new')
    await page.locator('#name').fill('several')
    await page.locator('#count').fill('2')
    await page.locator('#firewall').selectOption({ label: 'SSH, HTTP and HTTPS' })
    await page.locator('#owner').selectOption({ label: 'owner-of-several' })
    await page.locator('#backups').selectOption({ label: 'To for-several, keep 7' })
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByRole('heading', { name: 'Creating 2 guests', exact: true }).waitFor()
    const rows = page.locator('#main-content tbody tr')
    for (const name of ['several-1', 'several-2'])
      await rows
        .filter({ has: page.getByRole('link', { name, exact: true }) })
        .getByText('Done', { exact: true })
        .waitFor()
    await page.getByText(/^ssh /).first().waitFor()
    await lab.picture(page, 'several-created-wide')
    const expectSettings = async (name: string): Promise<void> => {
      const { data: guest } = (await lab.gateway.request('GET', `/containers/${name}`)).body
      expect(guest.owners).to.deep.equal([{ id: customer.body.data.id, username: 'owner-of-several' }])
      const { data: firewall } = (await lab.gateway.request('GET', `/containers/${name}/firewall`)).body
      expect(firewall).to.deep.include({ enabled: true, default_action: 'DROP' })
      expect((firewall.rules as { port: string }[]).map(({ port }) => port)).to.include('22,80,443')
      const { data: backups } = (await lab.gateway.request('GET', `/containers/${name}/backups`)).body
      expect(backups.schedule).to.include({ enabled: true, interval_hours: 24, retention: 7 })
      expect(guest.status).to.equal('running')
    }
    for (const name of ['several-1', 'several-2']) await eventually(() => expectSettings(name))
    expect(await page.getByRole('alert').count(), 'failures').to.equal(0)
    await lab.show(page, '/containers') // the same address would keep the result in place of the form
  })

  it('can be created and reinstalled with an SSH key that the user has stored', async () => {
    const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFuYYb6WDYH4hbfmGCwWrnYbxYW8rM4N8hQdPYcWnLvM'
    await lab.show(page, '/account')
    await page.getByRole('button', { name: 'Add an SSH key', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.locator('#ssh-key-name').fill('laptop')
    await dialog.locator('#ssh-key-public').fill('ssh-ed25519 wrong')
    await dialog.getByRole('button', { name: 'Add an SSH key', exact: true }).click()
    await dialog.getByRole('alert').filter({ hasText: 'public_key: ' }).waitFor()
    await dialog.locator('#ssh-key-public').fill(`${publicKey}\n`)
    await dialog.getByRole('button', { name: 'Add an SSH key', exact: true }).click()
    await dialog.waitFor({ state: 'detached' })
    const row = page.locator('tr').filter({ hasText: 'SHA256:' })
    await row.getByText('laptop', { exact: true }).waitFor()
    await lab.picture(page, 'ssh-keys-wide')

    const sent = (path: RegExp) =>
      page.waitForRequest((request) => request.method() === 'POST' && path.test(new URL(request.url()).pathname))
    await lab.show(page, '/containers/new')
    await page.locator('#name').fill('with-key')
    await page.locator('input[name=login][value=key]').check()
    await page.locator('#public-key-stored').selectOption({ label: 'laptop' })
    await lab.picture(page, 'stored-key-wide')
    const creation = sent(/\/containers$/)
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    expect((await creation).postDataJSON()).to.include({ ssh_auth_mode: 'key', ssh_public_key: publicKey })
    await page.getByRole('link', { name: 'Open guest' }).click()
    await page.getByRole('heading', { name: 'with-key', exact: true }).waitFor()

    const { id } = (await lab.gateway.request('GET', '/containers/with-key')).body.data as { id: number }
    await lab.show(page, `/containers/${id}/settings`)
    await page.getByRole('button', { name: 'Reinstall', exact: true }).click()
    await dialog.locator('#reinstall-login').selectOption('key')
    await dialog.locator('#reinstall-key-stored').selectOption({ label: 'laptop' })
    await dialog.locator('#confirm-typed').fill('with-key')
    await lab.picture(page, 'reinstall-key-wide')
    const reinstallation = sent(/\/reinstall$/)
    await dialog.getByRole('button', { name: 'Reinstall', exact: true }).click()
    expect((await reinstallation).postDataJSON()).to.include({ ssh_auth_mode: 'key', ssh_public_key: publicKey })
    await dialog.getByRole('button', { name: 'Done', exact: true }).click()
    await dialog.waitFor({ state: 'detached' })

    await lab.show(page, '/account')
    await page.getByRole('button', { name: 'Delete the SSH key laptop', exact: true }).click()
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByText('No SSH keys are stored.', { exact: true }).waitFor()
  })

  it('are created from a version of a distribution, which the form groups', async () => {
    const { body } = await lab.gateway.request('GET', '/images/enabled')
    const images = body.data as { id: string; name: string; type: string; distro: string }[]
    const real = images.find(({ type }) => type === 'lxc')!
    const [older, newer] = [`${real.name} 1`, `${real.name} 20`]
    const data = [
      { ...real, id: 'older', name: older },
      { ...real, name: newer },
      { ...real, id: 'other', name: 'Other 1', distro: 'other' },
    ]
    await page.route('**/api/v1/images/enabled', (route) => route.fulfill({ json: { success: true, data } }))
    await page.evaluate("localStorage.removeItem('berth.images')")
    await page.reload() // forgets the images that are known
    await lab.show(page, '/containers/new')
    expect(await page.locator('input[name=family]').count()).to.equal(2)
    await page.locator('input[name=family][value=other]').check()
    expect(await page.locator('select#image').count(), 'only one version').to.equal(0)
    await page.locator(`input[name=family][value="${real.distro}"]`).check()
    const version = page.getByLabel('Version', { exact: true })
    expect(await version.inputValue(), 'the newest version').to.equal(real.id)
    const shown = await version.locator('option').allInnerTexts()
    expect(shown.map((text) => text.split(' · ')[0])).to.deep.equal([newer, older])
    await lab.picture(page, 'create-families-wide')
    await page.locator('#name').fill('grouped')
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByRole('heading', { name: 'grouped is running', exact: true }).waitFor()
    const { body: made } = await lab.gateway.request('GET', '/containers/grouped')
    expect(made.data.template).to.equal(real.id)
    await page.unroute('**/api/v1/images/enabled')
    await page.reload()
    await lab.show(page, '/containers') // the same address would keep the result in place of the form
  })

  it('that cannot be created leave the form filled, with the reason and the request id', async function () {
    await lab.show(page, '/containers/new')
    await page.locator('#name').fill('made')
    await page.locator('#ram').fill('2048')
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByText('The name is already in use.').first().waitFor()
    expect(await page.locator('body').innerText()).to.match(/Request [0-9a-f-]{36}/)
    expect(await page.locator('#ram').inputValue()).to.equal('2048')
  })

  it('have the password that the user chooses, and stay stopped if the user wants', async () => {
    await lab.show(page, '/containers/new')
    await page.locator('#name').fill('quiet')
    await page.locator('input[name=login][value=password]').check()
    await page.locator('#own-password').fill('my-password-7')
    await page.locator('#starts').uncheck()
    await eventually(async () => expect(await page.locator('[data-curl]').innerText()).to.include('"start": false'))
    expect(await page.locator('[data-curl]').innerText()).not.to.include('my-password-7')
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByRole('heading', { name: 'quiet has been created', exact: true }).waitFor()
    const { data: guest } = (await lab.gateway.request('GET', '/containers/quiet')).body
    expect(guest.status).to.equal('stopped')
    await lab.show(page, '/containers') // the same address would keep the result in place of the form
  })

  it('have a form that explains in both languages which rule a field violates and how much room the best host has', async () => {
    const chinese = await lab.logIn({ language: 'zh' })
    for (const [on, rule, hint, amounts] of [
      [
        page,
        /^Use 1 to 63 letters/,
        'Correct this field: Name.',
        /^Not enough memory: 4000000 MiB are needed, and host-a/,
      ],
      [chinese, /^请使用 1 到 63 个字母/, '请更正此项：名称。', /^内存不足：需要 4000000 MiB，余量最多的主机 host-a/],
    ] as const) {
      await lab.show(on, '/containers/new')
      await on.locator('#name').fill('not a name')
      const create = on.locator('form button[type=submit]')
      await create.click()
      await on.locator('#name-error').filter({ hasText: rule }).waitFor()
      await on.getByRole('alert').getByText(hint, { exact: true }).waitFor()
      expect(await on.getByText(rule).count(), 'the rule is shown once').to.equal(1)
      await on.locator('#name').fill('too-large')
      await on.locator('#ram').fill('4000000')
      await create.click()
      await on.getByRole('alert').getByText(amounts).waitFor()
    }
    await chinese.context().close()
  })

  it('are deleted only after their exact name was typed', async function () {
    const { id } = await lab.gateway.fleet.addGuest({ name: 'gone' })
    await lab.show(page, `/containers/${id}/settings`)
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    const dialog = page.getByRole('dialog')
    const button = dialog.getByRole('button', { name: 'Delete', exact: true })
    for (const wrong of ['gon', 'gone ', 'Gone']) {
      await dialog.locator('#confirm-typed').fill(wrong)
      expect(await button.isDisabled(), wrong).to.equal(true)
    }
    await eventually(async () =>
      expect(await dialog.innerText())
        .to.match(/This can’t be undone/)
        .and.to.match(/Ports: 1/)
        .and.not.to.match(/Snapshots|Public addresses: 0/),
    )
    await lab.picture(page, 'delete-wide')
    await dialog.locator('#confirm-typed').fill('gone')
    await button.click()
    await waitFor(async () => !(await names()).includes('gone'), { what: 'deleted' })
    await page.getByRole('heading', { name: 'Guests', level: 1, exact: true }).waitFor()
    await lab.show(page, '/tasks')
    await page.getByLabel('Name of the guest', { exact: true }).fill('gone')
    const task = page.getByRole('row').filter({ hasText: 'Delete' })
    await task.getByText(/^\d+:\d\d$/).waitFor()
    await waitFor(async () => (await task.getByRole('link').count()) === 0, { what: 'no link to the deleted guest' })
    expect(await task.getByRole('button').count(), 'no button in the row of a finished task').to.equal(0)
    await page.getByRole('button', { name: 'Clear finished', exact: true }).click()
    const tasksOf = async (name: string): Promise<unknown[]> =>
      (await lab.gateway.request('GET', `/tasks?container_name=${name}`)).body.data as unknown[]
    await dialog.getByText(`Remove ${(await tasksOf('gone')).length} finished task`, { exact: false }).waitFor()
    const before = ((await lab.gateway.request('GET', '/tasks')).body.data as unknown[]).length
    const ofGuest = (await tasksOf('gone')).length
    await dialog.getByRole('button', { name: 'Remove', exact: true }).click()
    await page.getByText('No tasks.', { exact: true }).waitFor()
    expect(await tasksOf('gone')).to.deep.equal([])
    const { body: rest } = await lab.gateway.request('GET', '/tasks')
    expect(rest.data, 'tasks of others stay').to.have.length(before - ofGuest)
    await page.evaluate(`location.hash = '/containers/${id}'`)
    await page.getByRole('heading', { name: 'This guest doesn’t exist.', exact: true }).waitFor()
    lab.forgetComplaints() // the browser logs the missing guest as an error
    await page.getByRole('link', { name: 'All guests', exact: true }).click()
    await page.getByRole('heading', { name: 'Guests', level: 1, exact: true }).waitFor()
  })

  it('are filtered by a link, even if the user follows the link as soon as the list has opened', async () => {
    await lab.gateway.fleet.addGuest({ name: 'linked' })
    await lab.show(page, '/')
    await page.evaluate(followImmediately)
    await page.getByText(/^1 of \d+$/).waitFor()
    await page.getByRole('link', { name: 'linked', exact: true }).waitFor()
  })

  it('can be started together, after the dialog has shown how many of them already run', async function () {
    const { fleet } = lab.gateway
    for (let at = 0; at < 6; at++) await fleet.addGuest({ name: `bulk-${at}`, status: at < 4 ? 'stopped' : 'running' })
    await lab.show(page, '/containers?text=bulk-')
    await page.getByText(/^6 of \d+$/).waitFor()
    await page.getByLabel('Select all').check()
    await page.getByRole('region').getByRole('button', { name: 'Start', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await eventually(async () =>
      expect(await dialog.innerText())
        .to.include('4 will start.')
        .and.include('2 need no change'),
    )
    await lab.picture(page, 'bulk-wide')
    await dialog.getByRole('button', { name: 'Start 4', exact: true }).click()
    await page.getByText('Starting 4 guests').waitFor()
    await waitFor(
      async () => {
        const running = await names('?status=running')
        return running.filter((name) => name.startsWith('bulk-')).length === 6
      },
      { what: 'all run' },
    )
  })

  it('can be found by name, address and port, in the list and on every page', async function () {
    const { id } = await lab.gateway.fleet.addGuest({ name: 'needle' })
    const { body } = await lab.gateway.request('GET', `/containers/${id}`)
    await lab.show(page, '/')
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox').fill(`203.0.113.7:${body.data.ssh_port}`)
    await page.getByRole('option', { name: 'needle', selected: true }).waitFor()
    await lab.picture(page, 'palette-wide')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'needle', exact: true }).waitFor()
    await lab.show(page, '/containers')
    await page.keyboard.press('/')
    await focused(page.locator('[data-search]'))
    await page.keyboard.type(String(body.data.ip))
    await page.getByText(/^1 of \d+$/).waitFor()
    await page.waitForURL((url) => url.href.includes(`text=${String(body.data.ip)}`))
  })

  /** Delays requests for a script until the returned function is called. */
  async function hold(on: Page, script: string): Promise<() => void> {
    let release: () => void = () => undefined
    const released = new Promise<void>((resolve) => (release = resolve))
    await on.route(`**/assets/${script}-*.js`, async (route) => {
      await released
      await route.continue()
    })
    return release
  }

  it('show no menu if another guest has taken over their row before the menu has loaded', async function () {
    for (const name of ['menu-a', 'menu-b']) await lab.gateway.fleet.addGuest({ name })
    const own = await lab.logIn()
    await lab.show(own, '/containers?text=menu-')
    const release = await hold(own, 'OpenMenu')
    const menuOf = (name: string) => own.getByRole('button', { name: `Actions for ${name}` })
    const script = own.waitForRequest('**/assets/OpenMenu-*.js')
    await menuOf('menu-a').click()
    await script
    await own.locator('[data-search]').fill('menu-b')
    await menuOf('menu-a').waitFor({ state: 'detached' })
    const loaded = own.waitForResponse('**/assets/OpenMenu-*.js')
    release()
    await (await loaded).finished()
    await settled(own)
    expect(await own.getByRole('menu').count(), 'for the guest in the row').to.equal(0)
    await own.locator('[data-search]').fill('menu-')
    await menuOf('menu-a').waitFor()
    await settled(own)
    expect(await own.getByRole('menu').count(), 'when the guest is back').to.equal(0)
    await menuOf('menu-a').click()
    await own.getByRole('menuitem', { name: 'Delete', exact: true }).waitFor()
    await own.context().close()
  })

  it('are opened by a link even right after the user has typed a filter', async function () {
    const { id } = await lab.gateway.fleet.addGuest({ name: 'followed' })
    const own = await lab.logIn()
    await lab.show(own, '/containers')
    const release = await hold(own, 'GuestPage')
    await own.evaluate(`(() => {
      const search = document.querySelector('[data-search]')
      search.value = 'follow'
      search.dispatchEvent(new Event('input', { bubbles: true }))
      document.querySelector('.guest-row a[href="#/containers/${id}"]').click()
    })()`)
    // Waits twice as long as the page waits before it writes a filter into its URL. A busy machine delays both timers.
    await own.evaluate('new Promise((resolve) => setTimeout(resolve, 300))')
    expect(await own.evaluate('location.hash')).to.equal(`#/containers/${id}`)
    release()
    await own.getByRole('heading', { name: 'followed', exact: true }).waitFor()
    expect(await own.evaluate('location.hash')).to.equal(`#/containers/${id}`)
    await own.context().close()
  })

  it('show the changes of other users without a reload', async function () {
    const { id } = await lab.gateway.fleet.addGuest({ name: 'watched' })
    await lab.show(page, '/containers?text=watched')
    await page.getByRole('row').getByText('Running').waitFor()
    await lab.gateway.request('POST', `/containers/${id}/stop`, { body: {} })
    await page.getByRole('row').getByText('Stopped').waitFor()
  })

  it('can be managed with the keyboard only', async function () {
    await lab.show(page, '/containers/new')
    await page.locator('#name').focus()
    await page.keyboard.type('typed')
    // Enter sends the form only if its button is enabled. The button is enabled once the images are known.
    await waitFor(() => page.getByRole('button', { name: 'Create', exact: true }).isEnabled(), { what: 'the images' })
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Open guest' }).waitFor()
    await page.getByRole('link', { name: 'Open guest' }).focus()
    await page.keyboard.press('Enter')
    const more = page.getByRole('button', { name: 'Actions for typed' })
    await lab.loaded(page) // until then, the page may move the focus to its content
    await more.focus()
    await focused(more)
    expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).to.equal('solid')
    await page.keyboard.press('Enter')
    await page.getByRole('menuitem', { name: 'Delete', exact: true }).waitFor()
    await focused(page.getByRole('menu'))
    await page.keyboard.press('End')
    await page.keyboard.press('Enter')
    await focused(page.locator('#confirm-typed'))
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.waitForFunction('document.activeElement !== document.body') // the focus is on an element
  })
})
