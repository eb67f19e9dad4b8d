import { expect } from 'chai'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Locator, Page, Request } from 'playwright-core'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { eventually, waitFor } from '../support/wait.js'
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

/** A form of the panel, with values for all its fields. */
interface Form {
  readonly name: string
  /** Operation that the form sends, as `METHOD /path` in the OpenAPI document. */
  readonly operation: string
  readonly page: string
  /** Button that opens the form. Undefined: the form is part of the page. */
  readonly button?: string
  /** Title of a collapsed part of the form, which the test opens. */
  readonly unfold?: string
  /** Values of controls by their ids; `true` selects a checkbox. Other controls keep their default values. */
  readonly values: Readonly<Record<string, string | true>>
  /** Labels of additional checkboxes to select. */
  readonly ticks?: readonly string[]
  /** Button that sends the form. Default: it has the same name as the button that opens the form. */
  readonly submit?: string
  /** Optional fields that the form does not send, with the reason. */
  readonly without?: Readonly<Record<string, string>>
}

const password = 'a-password-of-the-vault'
const privateKey = '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n'
const hostKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFuYYb6WDYH4hbfmGCwWrnYbxYW8rM4N8hQdPYcWnLvM'
const otherKinds = 'belongs to another kind of target'
const ofSftp = {
  host: otherKinds,
  port: otherKinds,
  user: otherKinds,
  host_key: otherKinds,
  private_key: otherKinds,
}
const ofS3 = {
  endpoint: otherKinds,
  region: otherKinds,
  bucket: otherKinds,
  prefix: otherKinds,
  access_key_id: otherKinds,
  secret_access_key: otherKinds,
  ca_certificate: otherKinds,
}
const target = {
  operation: 'POST /backup-targets',
  page: '/backups',
  button: 'Add a target',
  submit: 'Add and check',
  ticks: ['I have stored this password outside Berth'],
}
const onCustomerPage = 'is set on the page of the customer'

const forms: readonly Form[] = [
  {
    ...target,
    name: 'a new backup target in a directory',
    values: { 'target-name': 'disk', 'target-path': '/srv/backups', 'target-encryption_password': password },
    without: { ...ofSftp, ...ofS3 },
  },
  {
    ...target,
    name: 'a new backup target on an SFTP server',
    values: {
      'target-type': 'sftp',
      'target-name': 'vault',
      'target-host': 'vault.example.com',
      'target-port': '2222',
      'target-user': 'berth',
      'target-path': 'kept/here',
      'target-host_key': hostKey,
      'target-private_key': privateKey,
      'target-encryption_password': password,
    },
    without: ofS3,
  },
  {
    ...target,
    name: 'a new backup target in an S3 bucket',
    values: {
      'target-type': 's3',
      'target-name': 'cloud',
      'target-endpoint': 'https://s3.example.com',
      'target-region': 'eu-1',
      'target-bucket': 'berth-backups',
      'target-prefix': 'a/b',
      'target-access_key_id': 'AKIDEXAMPLE',
      'target-secret_access_key': 'secret+of/the=cloud',
      'target-encryption_password': password,
    },
    without: { ...ofSftp, path: otherKinds, ca_certificate: 'is for private certificate authorities' },
  },
  {
    name: 'a new host',
    operation: 'POST /hosts',
    page: '/hosts',
    button: 'Add a host',
    unfold: 'Advanced',
    values: { 'host-name': 'node9', 'host-address': '198.51.100.9:7443', 'host-public': 'node9.example.com' },
  },
  {
    name: 'a change of a host',
    operation: 'PATCH /hosts/{id}',
    page: '/hosts/host-a',
    button: 'Edit',
    submit: 'Save',
    values: { 'host-public': '192.0.2.11' },
    without: { draining: 'has a button of its own' },
  },
  {
    name: 'the public URL',
    operation: 'PUT /public-url',
    page: '/settings',
    submit: 'Save',
    values: { 'public-url': 'https://panel.example.com' },
  },
  {
    name: 'the name of the provider',
    operation: 'PUT /branding',
    page: '/settings',
    submit: 'Save',
    values: { 'brand-name': 'Example Hosting' },
    without: { logo: 'is sent after a picture was selected' },
  },
  {
    name: 'an API key',
    operation: 'POST /api-keys',
    page: '/api',
    button: 'Create API key',
    values: {
      'key-name': 'billing',
      'key-rights': 'some',
      'key-scopes': 'container:read',
      'key-ips': '192.0.2.0/24',
      'key-expiry': '2031-01-01T00:00',
    },
    without: {
      container_uuids: 'is for integrations, which use the API',
      disabled: 'has a button of its own',
    },
  },
  {
    name: 'an administrator',
    operation: 'POST /admins',
    page: '/settings',
    button: 'Add an administrator',
    submit: 'Create a link',
    values: { 'admin-name': 'hedy', 'admin-role': 'operator' },
    without: { password: 'is set by the link' },
  },
  {
    name: 'an SSH key',
    operation: 'POST /account/ssh-keys',
    page: '/account',
    button: 'Add an SSH key',
    values: { 'ssh-key-name': 'laptop', 'ssh-key-public': hostKey },
  },
  {
    name: 'a new customer',
    operation: 'POST /sub-user/create',
    page: '/sub-users',
    button: 'Add a customer',
    values: { 'customer-name': 'filled' },
    ticks: ['formed'],
    without: {
      container_name: 'is the old form of container_names',
      permissions: onCustomerPage,
      allowed_image_ids: onCustomerPage,
      disabled: onCustomerPage,
      image_limit_configured: onCustomerPage,
      port_mapping_limit: onCustomerPage,
      expires_at: onCustomerPage,
    },
  },
  {
    name: 'a change of a customer',
    operation: 'PATCH /sub-users/{id}',
    page: '/sub-users/{customer}',
    submit: 'Save',
    values: { 'customer-ports': '7', 'customer-expiry': '2031-01-01T00:00', 'customer-images': true },
    without: { container_names: 'would replace the guests that another administrator assigns at the same time' },
  },
  {
    name: 'a gateway',
    operation: 'POST /gateways',
    page: '/gateways',
    button: 'Add a gateway',
    submit: 'Create command',
    values: { 'gateway-name': 'gateway-2' },
  },
  {
    name: 'a webhook',
    operation: 'POST /webhooks',
    page: '/webhooks',
    button: 'Add a webhook',
    values: { 'webhook-name': 'billing', 'webhook-url': 'http://127.0.0.1:9/hook' },
    without: {
      disabled: 'has a button of its own',
      description: 'is for integrations',
      secret: 'is generated',
      container_uuids: 'is for integrations',
    },
  },
  {
    name: 'a port mapping',
    operation: 'POST /containers/{id}/port-mappings',
    page: '/containers/{guest}/network',
    button: 'Add a port',
    submit: 'Add',
    values: { 'map-inner': '8080', 'map-outer': '', 'map-count': '2', 'map-note': 'web' },
    without: {
      host_port_end: 'follows from the number of ports, since the gateway chooses the first port',
      host_ip: 'is for integrations',
    },
  },
  {
    name: 'devices of the host',
    operation: 'PUT /containers/{id}/devices',
    page: '/containers/{guest}/settings',
    submit: 'Save',
    values: { 'device-tun': true, 'device-fuse': true },
  },
  {
    name: 'a traffic quota for each direction',
    operation: 'PUT /containers/{id}/traffic-limit',
    page: '/containers/{guest}/settings',
    submit: 'Save',
    values: { 'traffic-mode': 'split', 'traffic-in': '100', 'traffic-out': '200', 'traffic-day': '15' },
    without: { monthly_traffic_gb: 'is for both directions together' },
  },
  {
    name: 'the reaction to alerts about a guest',
    operation: 'PUT /containers/{id}/security',
    page: '/containers/{guest}/settings',
    submit: 'Save',
    values: { 'abuse-smtp': 'open', 'abuse-exempt': true },
  },
  {
    name: 'the reaction to alerts on a host',
    operation: 'PUT /security/settings',
    page: '/hosts/host-a',
    submit: 'Save',
    values: { 'auto-shutdown': true },
  },
  {
    name: 'limits for snapshots',
    operation: 'PUT /containers/{id}/snapshots/quota',
    page: '/containers/{guest}/snapshots',
    submit: 'Save',
    values: { 'snapshot-quota': '7', 'snapshot-space': '40' },
    without: { quota: 'is an alias of snapshot_limit' },
  },
  {
    name: 'a backup schedule',
    operation: 'POST /containers/{id}/backups/schedule',
    page: '/containers/{guest}/backups',
    submit: 'Save',
    values: { 'schedule-enabled': true, 'schedule-hours': '12', 'schedule-time': '04:30', 'schedule-keep': '5' },
  },
]

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
    // A page may have several forms, so this chooses the form that contains the first control.
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
