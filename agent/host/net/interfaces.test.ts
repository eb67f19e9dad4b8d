import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { isVirtual } from './interfaces.js'

describe('the check whether a network interface is virtual', () => {
  const directory = mkdtempSync('/tmp/btest-net-')
  after(() => rmSync(directory, { recursive: true }))

  /** Creates the files of an interface below /sys/class/net. */
  function make(name: string, type: string, entries: readonly string[]): void {
    for (const entry of ['', ...entries]) mkdirSync(join(directory, name, entry), { recursive: true })
    writeFileSync(join(directory, name, 'uevent'), `${type && `DEVTYPE=${type}\n`}INTERFACE=${name}\nIFINDEX=2\n`)
  }

  before(() => {
    make('eth0', '', ['device'])
    make('eth1', '', ['device'])
    make('wlan0', 'wlan', ['device'])
    make('bond0', 'bond', ['lower_eth0', 'lower_eth1'])
    make('bond1', 'bond', [])
    make('bond0.7', 'vlan', ['lower_bond0'])
    make('veth0', '', [])
    make('bond2', 'bond', ['lower_eth0', 'lower_veth0'])
    make('br0', 'bridge', ['lower_eth0'])
    make('br0.7', 'vlan', ['lower_br0'])
    make('wg0', 'wireguard', [])
    make('mac0', 'macvlan', ['lower_eth0'])
  })

  for (const [name, expected, what] of [
    ['eth0', false, 'a network card'],
    ['wlan0', false, 'a wireless card'],
    ['bond0', false, 'a bond of two network cards'],
    ['bond0.7', false, 'a VLAN on a bond of two network cards'],
    ['bond1', true, 'an empty bond'],
    ['bond2', true, 'a bond of a network card and a veth'],
    ['veth0', true, 'a veth'],
    ['br0', true, 'a bridge'],
    ['br0.7', true, 'a VLAN on a bridge'],
    ['wg0', true, 'a WireGuard interface'],
    ['mac0', true, 'a macvlan'],
    ['gone0', true, 'an interface that does not exist'],
  ] as const)
    it(`returns ${expected} for ${name}, ${what}`, () => expect(isVirtual(name, directory)).to.equal(expected))

  it('returns true for the loopback of this host', () => expect(isVirtual('lo')).to.equal(true))
})
