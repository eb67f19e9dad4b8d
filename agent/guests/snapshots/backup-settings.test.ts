import { randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { checkFirewall } from '../../../shared/firewall-rules.js'
import { decodeFirewall, decodeSettings, encodeFirewall } from './backup-settings.js'

const rule = {
  id: '',
  direction: 'in',
  protocol: 'tcp',
  action: 'ACCEPT',
  network: 'ipv4',
  sourceIp: '192.0.2.0/24',
  port: '80,443',
  description: 'web',
}
const firewall = (count: number, description = 'web') =>
  checkFirewall({ enabled: true, defaultAction: 'DROP', rules: Array(count).fill({ ...rule, description }) })

describe('the firewall that is stored with a backup', () => {
  it('does not change when it is encoded and decoded', () => {
    const recorded = firewall(2)
    expect(decodeFirewall(encodeFirewall(recorded))).to.deep.equal(recorded)
  })
  it('loses its descriptions if it would be too long for an argument of a program', () => {
    const rules = Array.from({ length: 200 }, () => ({ ...rule, description: randomBytes(150).toString('base64') }))
    const text = encodeFirewall(checkFirewall({ enabled: true, defaultAction: 'DROP', rules }))
    expect(text.length).to.be.at.most(32 * 1024)
    expect(decodeFirewall(text).rules.map(({ description }) => description)).to.deep.equal(Array(200).fill(''))
  })
  it('is refused if it is damaged', () => expect(() => decodeFirewall('damaged')).to.throw())
})

describe('the settings that are stored with a backup', () => {
  it('are ignored if they are damaged or missing', () => {
    expect(decodeSettings('id', Buffer.from([0xff]).toString('base64'))).to.equal(undefined)
    expect(decodeSettings('id', undefined)).to.equal(undefined)
  })
})
