import { expect } from 'chai'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Locator, Page, Request } from 'playwright-core'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { eventually, waitFor } from '../support/wait.js'
import { forms, type Form } from './panel-forms.js'
import { openLab, type PanelLab } from './panel-lab.js'

interface Schema {
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, unknown>>
  readonly $ref?: string
}
interface Operation {
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> }
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

const sources = 'panel/src'
const call = /\bapi\.(POST|PUT|PATCH)\(\s*'([^']+)'/g

describe('the forms of the panel', function () {
  let lab: PanelLab
  let page: Page
  let guest: Guest
  let ids: Readonly<Record<string, string>>

  before(async () => {
    lab = await openLab()
    await lab.gateway.fleet.work('host-a')
    guest = await lab.gateway.fleet.addGuest({ name: 'formed' })
    const { body } = await lab.gateway.request('POST', '/sub-user/create', {
      body: { container_name: 'formed', username: 'form-owner' },
    })
    ids = { customer: body.data.id as string, guest: String(guest.id) }
    page = await lab.logIn()
  })
  after(async () => {
    await page.context().close()
    await lab.gateway.request('PATCH', '/hosts/host-a', { body: { public_address: '192.0.2.10' } })
    await lab.gateway.request('PUT', '/public-url', { body: { public_url: '' } })
    await lab.gateway.request('PUT', '/branding', { body: { name: '' } })
  })

  const document = (): Document => lab.gateway.api.document as Document
  function bodySchema(operation: string): Schema {
    const [method = '', path = ''] = operation.split(' ')
    const paths = document().paths
    const found = paths[path] ?? paths[`/api/v1${path}`]
    const schema = found?.[method.toLowerCase()]?.requestBody?.content['application/json']?.schema ?? {}
    return schema.$ref === undefined ? schema : (document().components.schemas[schema.$ref.split('/').at(-1)!] ?? {})
  }

  async function fill(scope: Locator, values: Form['values']): Promise<void> {
    for (const [id, value] of Object.entries(values)) {
      const control = scope.locator(`#${id}`)
      await control.waitFor({ state: 'attached' }) // `count` does not wait
      if (value === true) await control.check()
      else if ((await control.and(scope.locator('select')).count()) > 0) await control.selectOption(value)
      else await control.fill(value)
    }
  }

  /** Opens, fills and sends a form. @returns the request that the panel sends */
  async function send(form: Form): Promise<Request> {
    await lab.show(
      page,
      form.page.replace(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? ''),
    )
    const scope = form.button === undefined ? page.locator('#main-content') : page.getByRole('dialog')
    if (form.button !== undefined)
      await page.locator('#main-content').getByRole('button', { name: form.button, exact: true }).click()
    if (form.unfold !== undefined) await scope.getByText(form.unfold, { exact: true }).click()
    await fill(scope, form.values)
    for (const label of form.ticks ?? []) await scope.getByLabel(label, { exact: true }).check()
    const [method = '', path = ''] = form.operation.split(' ')
    const wanted = new RegExp(`/api/v1${path.replaceAll(/\{\w+\}/g, '[^/]+')}(\\?|$)`)
    const sent = page.waitForRequest((one) => one.method() === method && wanted.test(one.url()))
    // A page may have several forms. The tested form is the one that contains the first control of `form.values`.
    const [first] = Object.keys(form.values)
    const own = form.button === undefined ? page.locator('form').filter({ has: page.locator(`#${first}`) }) : scope
    await own.getByRole('button', { name: form.submit ?? form.button ?? '', exact: true }).click()
    return sent
  }

  for (const form of forms)
    it(`send every field that the API requires for ${form.name}`, async () => {
      const request = await send(form)
      const answer = (await request.response())!
      expect(answer.status(), await answer.text()).to.be.lessThan(300)
      const body = request.postDataJSON() as Record<string, unknown>
      const { required = [], properties = {} } = bodySchema(form.operation)
      expect(Object.keys(body), 'required').to.include.members([...required])
      const silent = Object.keys(properties).filter((field) => !(field in body))
      expect(silent.sort(), 'optional fields that the form neither sends nor explains').to.deep.equal(
        Object.keys(form.without ?? {})
          .filter((field) => field in properties)
          .sort(),
      )
    })

  it('keep selected scopes of an API key that the search does not show', async () => {
    await lab.show(page, '/api')
    await page.getByRole('button', { name: 'Create API key', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.locator('#key-rights').selectOption({ label: 'Selected scopes' })
    await dialog.locator('#key-name').fill('searched')
    await dialog.getByLabel('task:read', { exact: true }).uncheck()
    const find = dialog.getByLabel('Find a scope', { exact: true })
    await find.fill('backup:sch')
    await dialog.getByLabel('backup:schedule', { exact: true }).check()
    await find.fill('container:power')
    expect(await dialog.getByLabel('container:power', { exact: true }).isDisabled(), 'part of container:*').to.equal(
      true,
    )
    await lab.picture(page, 'key-scopes-wide')
    const sent = page.waitForRequest((one) => one.method() === 'POST' && one.url().endsWith('/api-keys'))
    await dialog.getByRole('button', { name: 'Create API key', exact: true }).click()
    expect((await sent).postDataJSON()).to.deep.include({ scopes: ['container:*', 'backup:schedule'] })
    await page.keyboard.press('Escape')
  })

  it('create a backup target with a generated password, and check the target immediately', async () => {
    await lab.show(page, '/backups')
    await page.getByRole('button', { name: 'Add a target', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.locator('#target-name').fill('generated')
    await dialog.locator('#target-path').fill('/srv/generated')
    const submit = dialog.getByRole('button', { name: 'Add and check' })
    await dialog.getByRole('button', { name: 'Generate a password' }).click()
    const generated = await eventually(async () => {
      const value = await dialog.locator('#target-encryption_password').inputValue()
      expect(value).to.match(/^[\w-]{32}$/)
      return value
    })
    expect(await submit.isDisabled(), 'until it is stored elsewhere').to.equal(true)
    await dialog.getByLabel('I have stored this password outside Berth').check()
    await lab.picture(page, 'backup-target-wide')
    const checked = page.waitForRequest((one) => /backup-targets\/[^/]+\/check$/.test(one.url()))
    await submit.click()
    expect((await (await checked).response())!.status()).to.equal(200)
    await page.getByText('Target is reachable.').waitFor()
    expect(await page.locator('body').innerText()).not.to.include(generated)
  })

  it('change a backup target without its secrets, and list backups of removed guests', async () => {
    await lab.show(page, '/backups')
    const row = page.locator('#main-content tr').filter({ hasText: 'generated' })
    await row.getByRole('button', { name: 'Edit', exact: true }).click()
    const edit = page.getByRole('dialog', { name: 'Edit generated', exact: true })
    await waitFor(async () => (await edit.locator('#edit-path').inputValue()) === '/srv/generated')
    await edit.locator('#edit-path').fill('/srv/moved')
    const sent = page.waitForRequest((one) => one.method() === 'PATCH' && /backup-targets\/[^/]+$/.test(one.url()))
    await edit.getByRole('button', { name: 'Save and check', exact: true }).click()
    expect((await sent).postDataJSON()).to.deep.equal({ name: 'generated', verify_percent: 100, path: '/srv/moved' })
    await row.getByText('/srv/moved', { exact: true }).waitFor()
    await row.getByRole('button', { name: 'Removed guests', exact: true }).click()
    await page.getByText('This target has no backups of removed guests.', { exact: true }).waitFor()
  })

  it('show devices of the host only for containers, with a hint that a change takes effect at the next start', async () => {
    const body = { devices: ['fuse'] }
    await lab.gateway.request('PUT', `/containers/${guest.id}/devices`, { body })
    await lab.show(page, `/containers/${guest.id}/settings`)
    const card = page.locator('.card').filter({ has: page.locator('#device-tun') })
    await waitFor(() => card.locator('#device-fuse').isChecked(), { what: 'the device of the guest' })
    await card.getByText('takes effect when the guest starts next').waitFor()
    await lab.picture(page, 'devices-wide')
    await card.locator('#device-tun').check()
    await card.getByRole('button', { name: 'Save', exact: true }).click()
    const devices = async (): Promise<unknown> =>
      (await lab.gateway.request('GET', `/containers/${guest.id}`)).body.data.devices
    await waitFor(async () => isDeepStrictEqual(await devices(), ['tun', 'fuse']), {
      what: 'both are allowed',
    })
    const machine = await lab.gateway.fleet.addGuest({ name: 'formed-kvm', virtualization: 'kvm' })
    await lab.show(page, `/containers/${machine.id}/settings`)
    await page.locator('#limit-vcpu').waitFor()
    expect(await page.locator('#device-tun').count()).to.equal(0)
  })

  it('have source files that contain every required field of the requests that they send', () => {
    const missing: string[] = []
    let operations = 0
    for (const name of readdirSync(sources, { recursive: true, encoding: 'utf8' })) {
      if (!/\.(svelte|ts)$/.test(name) || /\.(test|gen)\.ts$/.test(name)) continue
      const text = readFileSync(join(sources, name), 'utf8')
      // The body may be composed in a module that the component imports.
      const imported = [...text.matchAll(/from '(\.\.?\/[^']+\.ts)'/g)].map(([, file = '']) =>
        file.includes('.gen.') ? '' : readFileSync(join(sources, name, '..', file), 'utf8'),
      )
      for (const [, method = '', path = ''] of text.matchAll(call)) {
        operations++
        for (const field of bodySchema(`${method} ${path}`).required ?? [])
          if (![text, ...imported].some((source) => new RegExp(`\\b${field}\\b`).test(source)))
            missing.push(`${name}: ${method} ${path} lacks ${field}`)
      }
    }
    expect(operations).to.be.greaterThan(60)
    expect(missing).to.deep.equal([])
  })

  it('send only requests for which the OpenAPI document describes the fields', () => {
    for (const { operation } of forms)
      expect(Object.keys(bodySchema(operation).properties ?? {}), operation).not.to.deep.equal([])
  })
})
