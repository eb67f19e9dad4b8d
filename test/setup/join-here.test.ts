import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { createCsrPem, createPrivateKeyPem } from '../../agent/enrollment/csr.js'
import { writeIdentity } from '../../agent/enrollment/identity.js'
import { createTestPki, hourMs, type TestPki } from '../support/gateway/pki.js'
import { shell } from '../support/host/setup-shell.js'

/*
 * Tests when `scripts/up` lets this host join the gateway on the same host. The test calls functions of the script. CAs
 * and identities are like those of the daemons, and the API is simulated.
 */

describe('scripts/up', function () {
  let dir = ''
  let here: TestPki
  let there: TestPki
  before(async () => {
    here = await createTestPki()
    there = await createTestPki()
    for (const pki of [here, there]) await pki.enrol('h1')
  })
  after(async () => {
    await here.remove()
    await there.remove()
  })
  beforeEach(() => {
    dir = mkdtempSync('/tmp/btest-join-')
    for (const path of ['var/agent', 'var/gateway', 'etc']) mkdirSync(join(dir, path), { recursive: true })
    writeFileSync(join(dir, 'etc/admin.key'), 'key')
    keepAuthority(here)
  })
  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  function keepAuthority({ directory }: TestPki): void {
    cpSync(join(directory, 'pki'), join(dir, 'var/gateway/pki'), { recursive: true })
  }
  function keepIdentity({ directory }: TestPki): void {
    cpSync(join(directory, 'identity-h1'), join(dir, 'var/agent/identity'), { recursive: true })
  }

  /** Runs the last part of scripts/up. @param hosts ids of the hosts that the simulated gateway knows */
  function up(...hosts: string[]): { output: string; joined: boolean; asked: string } {
    const known = JSON.stringify({
      data: hosts.map((id) => ({ id, name: id, status: 'online', address: '' })),
    })
    const { output, code } = shell(`set_instance btestj; var_dir=${dir}/var; etc_dir=${dir}/etc
      admin_key=$etc_dir/admin.key; setup_log=${dir}/log
      initialise_gateway() { :; }; ensure_daemon() { :; }; admin_key_refused() { false; }; sleep() { :; }; seq() { echo 1; }
      wait_for() { echo "waited: $3"; }
      api() { if [ "$1" = GET ]; then echo '${known}'; else echo "$2" >${dir}/asked; echo '{"data":{"join_token":"t"}}'; fi; }
      agent_command() { touch ${dir}/joined; }
      run_daemons`)
    expect(code, output).to.equal(0)
    const [joined, asked] = [join(dir, 'joined'), join(dir, 'asked')].map((path) => existsSync(path) && path)
    return { output, joined: joined !== false, asked: asked ? readFileSync(asked, 'utf8').trim() : '' }
  }

  it('lets a host join if it has no identity and its gateway does not know the host', () => {
    const { joined, asked } = up()
    expect([joined, asked]).to.deep.equal([true, '/hosts'])
  })

  it('lets a host that lost its identity join under its former name', () => {
    const { joined, asked } = up('h1')
    expect([joined, asked]).to.deep.equal([true, '/hosts/h1/join-token'])
  })

  it('does not let a host join again if its gateway still knows the host', () => {
    keepIdentity(here)
    expect(up('h1').joined).to.equal(false)
  })

  it('lets a host join again if its certificate has expired or is not valid yet', async () => {
    const privateKeyPem = createPrivateKeyPem()
    const identity = { role: 'agent', hostId: 'h1' } as const
    const dayMs = 24 * hourMs
    for (const daysAgo of [40, -40]) {
      const issuedMs = Date.now() - daysAgo * dayMs
      const csr = await createCsrPem(privateKeyPem)
      const { certificatePem } = await here.authority.signRequest(csr, identity, 30 * dayMs, issuedMs)
      const directory = join(dir, 'var/agent/identity')
      await writeIdentity(directory, { privateKeyPem, certificatePem, caPem: here.authority.caPem })
      const { joined, asked } = up('h1')
      expect([joined, asked]).to.deep.equal([true, '/hosts/h1/join-token'])
    }
  })

  it('lets a host join again if its gateway has forgotten the host', () => {
    keepIdentity(here)
    expect(up().joined).to.equal(true)
  })

  it('does not let a host of another gateway join, and reports the reason', () => {
    keepIdentity(there)
    for (const hosts of [[], ['h1']]) {
      const { output, joined } = up(...hosts)
      expect(joined, output).to.equal(false)
      expect(output).to.include('has already joined another gateway, as h1').and.include('waited: the agent listens')
      expect(output).to.not.include('online')
    }
  })

  for (const [what, file, ofHere] of [
    ['its gateway begins to replace the CA', 'next-authority.pem', true],
    ['its certificate is from the next CA of its gateway', 'next-authority.pem', false],
  ] as const)
    it(`does not let a host join again if ${what}`, async () => {
      keepAuthority(here)
      cpSync(join(there.directory, 'pki/authority.pem'), join(dir, 'var/gateway/pki', file))
      const [own, other] = ofHere ? [here, there] : [there, here]
      keepIdentity(own)
      appendFileSync(join(dir, 'var/agent/identity/identity.pem'), other.authority.caPem)
      expect(up('h1').joined).to.equal(false)
      expect(up('h1').output).to.include('online')
    })

  it('lets a host join again if its gateway was replaced by a gateway with a new CA', () => {
    keepIdentity(there)
    rmSync(join(dir, 'var/gateway/pki'), { recursive: true })
    keepAuthority(there)
    expect(up('h1').joined).to.equal(false)
    rmSync(join(dir, 'var/gateway/pki'), { recursive: true })
    keepAuthority(here)
    expect(up().joined).to.equal(true)
  })
})
