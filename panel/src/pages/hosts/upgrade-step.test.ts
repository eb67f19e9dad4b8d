import { expect } from 'chai'
import type { FleetUpgrade, Host } from '../../api/types.ts'
import { canRollBack, canUpgrade, commandsOf, mayBegin } from './upgrade-step.ts'

type FleetHost = FleetUpgrade['hosts'][number]

describe('buttons of upgrades', () => {
  const host = {
    upgrade: null,
    status: 'online',
    outdated: true,
    features: ['upgrade'],
    previous_version: '1',
  } as const
  const running = { state: 'running' } as NonNullable<Host['upgrade']>
  for (const [name, fields, up, back] of [
    ['outdated host', {}, true, true],
    ['current host', { outdated: false }, false, true],
    ['host without earlier packages', { previous_version: '' }, true, false],
    ['offline host', { status: 'offline' }, false, false],
    ['host from a checkout', { features: [] }, false, false],
    ['host that is being upgraded', { upgrade: running }, false, false],
  ] as const)
    it(`upgrade: ${up}, roll back: ${back}, for an ${name}`, () => {
      const given = {
        ...host,
        ...fields,
        features: [...((fields as { features?: string[] }).features ?? host.features)],
      }
      expect([canUpgrade(given), canRollBack(given)]).to.deep.equal([up, back])
    })

  const fleet = (state: FleetUpgrade['state'], hosts: Partial<FleetHost>[] = [], action = 'upgrade'): FleetUpgrade =>
    ({ state, action, hosts }) as FleetUpgrade
  const done = { state: 'done', step: 'done' } as const
  for (const [name, given, commands, begin] of [
    ['none', fleet('none'), [], true],
    ['running', fleet('running', [{ state: 'waiting', step: '' }]), ['pause', 'cancel'], false],
    ['running with an upgraded host', fleet('running', [done]), ['pause', 'cancel', 'rollback'], false],
    ['paused', fleet('paused', [done]), ['resume', 'cancel', 'rollback'], false],
    ['stopped', fleet('stopped', [{ state: 'failed', step: 'failed' }]), ['resume', 'cancel'], true],
    ['canceled while a host continues', fleet('canceled', [{ state: 'upgrading' }]), ['rollback'], false],
    ['done', fleet('done', [done]), ['rollback'], true],
    ['done without a change', fleet('done', [{ state: 'done', step: '' }]), [], true],
    ['a completed rollback', fleet('done', [done], 'rollback'), [], true],
  ] as const)
    it(`are ${commands.join(', ') || 'absent'} for an upgrade of the fleet that is ${name}`, () => {
      expect([commandsOf(given), mayBegin(given)]).to.deep.equal([commands, begin])
    })
})
