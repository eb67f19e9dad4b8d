import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { recordKernelSettings, restoreKernelSettings } from '../../agent/daemon/kernel-record.js'
import { ensureHostLimits } from '../../agent/drivers/lxc/host-limits.js'
import { findSysctl, writeSysctl } from '../../agent/host/kernel/sysctl.js'
import { ensureSysctl } from '../../agent/network/bridge/ensure.js'
import { createLogger } from '../../shared/logging.js'
import { moduleUrl, nodeEval } from '../support/programs.js'
import { sh } from '../support/sh.js'

/** A kernel setting that tests may change, because no test host reaches the limit in this setting. */
const path = 'net/ipv6/neigh/default/gc_thresh1'

describe('the host’s kernel settings that agents change', () => {
  const directory = mkdtempSync('/tmp/btest-kernel-')
  const file = join(directory, 'record.json')
  const log = createLogger({ name: 'test', level: 'error' })
  const [first, second] = [join(directory, 'first'), join(directory, 'second')]
  let original: number | undefined

  before(async () => {
    original = findSysctl(path)
    for (const state of [first, second]) mkdirSync(state)
  })
  after(async () => {
    if (original !== undefined) await writeSysctl(path, original)
    rmSync(directory, { recursive: true, force: true })
  })

  it('are restored when the last agent that needs them is purged', async () => {
    expect(original, path).to.be.a('number')
    await writeSysctl(path, 200)
    await recordKernelSettings(first, 'btestkr', file)
    ensureHostLimits()
    await recordKernelSettings(second, 'btestkr', file)
    expect(findSysctl(path)).to.equal(8192)
    await restoreKernelSettings(first, log, file)
    expect(findSysctl(path), 'another agent needs it').to.equal(8192)
    await restoreKernelSettings(second, log, file)
    expect(findSysctl(path)).to.equal(200)
    expect(existsSync(file)).to.equal(false)
  })

  it('are not restored if another program has changed them after the agent’s change', async () => {
    expect(original, path).to.be.a('number')
    await writeSysctl(path, 200)
    await recordKernelSettings(first, 'btestkr', file)
    ensureHostLimits()
    await writeSysctl(path, 300)
    await restoreKernelSettings(first, log, file)
    expect(findSysctl(path)).to.equal(300)
  })

  it('are recorded for an uplink when they first change, not when the agent starts', async () => {
    const setting = 'net/ipv4/neigh/lo/proxy_delay'
    const own = findSysctl(setting)
    expect(own, setting).to.be.a('number').that.is.not.equal(0)
    await recordKernelSettings(first, 'btestkr', file)
    expect(Object.keys(readRecord().before).filter((key) => /proxy_delay|forwarding/.test(key))).to.deep.equal([])
    await ensureSysctl({ path: setting, value: 0 })
    expect(readRecord().before).to.include({ [`${statSync('/proc/self/ns/net').ino}:${setting}`]: own })
    await restoreKernelSettings(first, log, file)
    expect(findSysctl(setting)).to.equal(own)
  })

  it('are restored only in the network namespace in which they were changed', async () => {
    const setting = 'net/ipv4/neigh/lo/proxy_qlen'
    const own = Number(findSysctl(setting))
    const lines = `
      import { recordKernelSettings } from '${moduleUrl('agent/daemon/kernel-record.ts')}'
      import { ensureSysctl } from '${moduleUrl('agent/network/bridge/ensure.ts')}'
      import { writeSysctl } from '${moduleUrl('agent/host/kernel/sysctl.ts')}'
      await writeSysctl('${setting}', ${own + 1})
      await recordKernelSettings('${second}', 'btestkr', '${file}')
      await ensureSysctl({ path: '${setting}', value: ${own} })`
    await recordKernelSettings(first, 'btestkr', file)
    sh('unshare', '-n', process.execPath, ...nodeEval(lines))
    expect(Object.values(readRecord().before), 'recorded there').to.include(own + 1)
    await restoreKernelSettings(second, log, file)
    await restoreKernelSettings(first, log, file)
    expect(findSysctl(setting), 'here it is the host’s own').to.equal(own)
  })

  it('are not recorded for the agent’s own bridge', async () => {
    await recordKernelSettings(first, 'lo', file)
    const setting = 'net/ipv4/neigh/lo/proxy_delay'
    const own = findSysctl(setting)
    try {
      await ensureSysctl({ path: setting, value: 0 })
      expect(Object.keys(readRecord().before).filter((key) => key.includes(setting))).to.deep.equal([])
    } finally {
      await writeSysctl(setting, Number(own))
    }
  })

  function readRecord(): { before: Record<string, number> } {
    return JSON.parse(readFileSync(file, 'utf8')) as { before: Record<string, number> }
  }
})
