import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { run } from '../support/host/setup-shell.js'

/*
 * Tests that a purge removes only the bridge, interfaces and tables in the configuration of the instance, never those
 * of the first instance. In a network namespace of its own, the test creates interfaces and tables of both instances.
 */

const name = 'btestn'
const etc = `/etc/berth-${name}`
const state = `/var/lib/berth-${name}`
const directories = ['/etc', '/var/lib', '/run', '/var/log', '/opt'].map((base) => `${base}/berth-${name}`)

const firstOnes = ['berth0', 'bt7', 'ip berth', 'inet berth']
const ownOnes = ['btestnbr', 'nbt1', 'inet btestn']
const everything = [...firstOnes, ...ownOnes]

/** A checkout whose programs were never built. */
const unbuilt = mkdtempSync('/tmp/btest-unbuilt-')

interface Outcome {
  code: number | null
  output: string
  /** Bridges, interfaces and tables that exist after the purge. */
  left: string[]
}

/** Runs the purge in a network namespace with interfaces and tables of the first instance and of `btestn`. */
function purge({ root = '.', instance = name } = {}): Outcome {
  const lines = `
    for bridge in berth0 btestnbr; do ip link add $bridge type bridge; done
    for port in bt7 nbt1; do ip link add $port type veth peer name p$port; done
    for table in 'ip berth' 'inet berth' 'inet btestn'; do nft add table $table; done
    ${root}/scripts/down ${instance && `--instance ${instance}`} --purge 2>&1 || echo "code $?"
    ip -o link
    nft list tables | sed 's/^table/:/; s/$/:/'`
  const { output } = run('unshare', ['-n', 'bash', '-euc', lines])
  const left = everything.filter((thing) => new RegExp(`: ${thing}[:@]`).test(output))
  return { code: Number(/^code (\d+)$/m.exec(output)?.[1] ?? 0), output, left }
}

const blocks = {
  network: '\n  bridge: btestnbr\n  table: btestn\n  interface_prefix: nbt',
  storage: `\n  pool: ${state}/pool\n  loop_file: ${state}/pool.img`,
}
const flow = '{ bridge: btestnbr, table: btestn, interface_prefix: nbt }'

function writeConfigs(change: Partial<typeof blocks> & { agent?: string } = {}): void {
  const { network, storage } = { ...blocks, ...change }
  mkdirSync(etc, { recursive: true })
  const agent = `state_dir: ${change.agent ?? `${state}/agent`}\nrun_dir: /run/berth-${name}/agent\n`
  writeFileSync(join(etc, 'agent.yaml'), `${agent}network: ${network}\nstorage: ${storage}\n`)
  const gateway = `state_dir: ${state}/gateway\nrun_dir: /run/berth-${name}/gateway\n`
  writeFileSync(join(etc, 'gateway.yaml'), gateway)
}

/** Writes the file in which `scripts/up` records values of the configuration. */
function writeRecord(directory = state): void {
  mkdirSync(directory, { recursive: true })
  const values = [`state_dir ${directory}/agent`, `run_dir /run/${name}`, `storage.pool ${directory}/pool`]
  const names = ['network.bridge btestnbr', 'network.table btestn', 'network.interface_prefix nbt']
  const lines = [...values, ...names].map((line) => `${line.replace(' ', '\t')}\n`)
  writeFileSync(join(directory, '.agent-values'), lines.join(''))
}

function clear(): void {
  for (const path of [...directories, '/var/lib/berth-btesto']) rmSync(path, { recursive: true, force: true })
}

describe('scripts/down --purge', function () {
  before(() => {
    for (const path of ['scripts', 'systemd']) cpSync(path, join(unbuilt, path), { recursive: true })
  })
  beforeEach(clear)
  after(() => {
    clear()
    rmSync(unbuilt, { recursive: true, force: true })
  })

  function expectPurged({ code, output, left }: Outcome): void {
    expect(left, output).to.deep.equal(firstOnes)
    expect(code, output).to.equal(0)
    expect(directories.filter(existsSync)).to.deep.equal([])
  }

  function expectRefused({ code, output, left }: Outcome, why: string): void {
    expect(left, output).to.deep.equal(everything)
    expect(code, output).to.equal(1)
    expect(output).to.include(why)
  }

  it('removes nothing if the instance does not exist', () =>
    expectRefused(purge(), `there is no instance '${name}' on this machine`))

  it('removes nothing in a second run', () => {
    writeConfigs()
    expectPurged(purge())
    expectRefused(purge(), `there is no instance '${name}' on this machine`)
  })

  it('removes the files of a set-up that was killed before it wrote a configuration', () => {
    mkdirSync(`/var/log/berth-${name}`)
    const { code, output, left } = purge()
    expect(left, output).to.deep.equal(everything)
    expect([code, existsSync(`/var/log/berth-${name}`)]).to.deep.equal([0, false])
  })

  it('removes nothing if both the configuration and the recorded values are missing', () => {
    mkdirSync(state)
    expectRefused(purge(), `${etc}/agent.yaml is missing`)
    expect(existsSync(state)).to.equal(true)
  })

  it('uses the recorded values of scripts/up if the configuration is missing', () => {
    writeRecord()
    expectPurged(purge())
  })

  for (const root of ['.', unbuilt])
    it(`removes only the data of its instance if the YAML configuration is in block style (programs are ${root === '.' ? 'built' : 'missing'})`, () => {
      writeConfigs()
      expectPurged(purge({ root }))
    })

  it('removes only the data of its instance if the YAML configuration is in flow style ({…} on one line)', () => {
    writeConfigs({ network: flow })
    expectPurged(purge())
  })

  it('uses the names that scripts/up recorded if the YAML configuration is in flow style and Berth’s programs are missing', () => {
    writeConfigs({ network: flow })
    writeRecord()
    expectPurged(purge({ root: unbuilt }))
  })

  for (const network of [flow, '\n  "bridge": btestnbr', '\n  bridge: &b btestnbr', '\n  bridge:\n    btestnbr'])
    it(`removes nothing if the built programs are missing and the script cannot read this network setting itself: ${JSON.stringify(network)}`, () => {
      writeConfigs({ network })
      expectRefused(purge({ root: unbuilt }), 'the shell cannot read it')
      expect(existsSync(etc)).to.equal(true)
    })

  for (const root of ['.', unbuilt])
    for (const [what, change] of [
      ['all names of the section network', { network: '\n  subnet: 10.9.0.0/16' }],
      ['the nftables table', { network: blocks.network.replace('table: btestn', 'subnet: 10.9.0.0/16') }],
      ['the interface prefix', { network: blocks.network.replace('interface_prefix: nbt', 'subnet: 10.9.0.0/16') }],
      ['the loop file', { storage: `\n  pool: ${state}/pool` }],
    ] as const)
      it(`removes nothing if a named instance does not set ${what} (programs are ${root === '.' ? 'built' : 'missing'})`, () => {
        writeConfigs(change)
        expectRefused(purge({ root }), 'belongs to the first instance')
      })

  it('removes nothing if the configuration contains the directory of another instance', () => {
    writeRecord('/var/lib/berth-btesto')
    writeConfigs({ agent: '/var/lib/berth-btesto/agent' })
    expectRefused(purge(), 'belongs to another instance, in /var/lib/berth-btesto')
  })
})
