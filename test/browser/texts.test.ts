import { expect } from 'chai'
import { describeMissing } from '../../agent/network/addresses/plan-ipv6.js'
import { describeUnserved, planPoolWarnings } from '../../agent/network/addresses/plan-warnings.js'
import { describeBridgeFilter, describeDropping, describeLegacy } from '../../agent/network/nft/plan-warnings.js'
import { describeCgroups, describeThrottling } from '../../agent/drivers/lxc/host-facts.js'
import { planRoomWarnings } from '../../agent/storage/room.js'
import { patternRules } from '../../gateway/http/pattern-rules.js'
import { moduleUrl } from '../support/programs.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'

type Texts = Readonly<Record<string, string>>

/** Loads the texts of a language at run time, because the panel has another compiler configuration. */
async function textsOf(language: 'en' | 'zh'): Promise<Texts> {
  const file = moduleUrl(`panel/src/i18n/${language}/index.ts`)
  return ((await import(file)) as Record<string, Texts>)[language] ?? {}
}

describe('the texts of the panel', () => {
  let gateway: TestGateway
  let en: Texts
  let zh: Texts
  before(async () => {
    gateway = await startTestGateway()
    en = await textsOf('en')
    zh = await textsOf('zh')
  })
  after(() => gateway.close())

  it('exist in every language, and are not empty', () => {
    expect(Object.keys(zh).sort()).to.deep.equal(Object.keys(en).sort())
    for (const text of [...Object.values(en), ...Object.values(zh)]) expect(text.trim()).not.to.equal('')
  })

  it('contain the same placeholders in every language', () => {
    const places = (text: string): string[] => (text.match(/\{\{\w+\}\}/g) ?? []).sort()
    for (const [key, text] of Object.entries(en).filter(([name]) => !name.endsWith('_one')))
      expect(places(zh[key] ?? ''), key).to.deep.equal(places(text))
  })

  it('use the punctuation of their language', () => {
    const han = '\u3400-\u9fff'
    const half = new RegExp(`[${han}] ?[,;:?!(]|[,;:?!)] ?[${han}]`)
    for (const [key, text] of Object.entries(zh)) expect(text, key).not.to.match(half)
    for (const [key, text] of Object.entries(en)) expect(text, key).not.to.match(/[，。；：？！（）]/)
  })

  it('contain no untranslated text', () => {
    for (const [key, text] of Object.entries(en)) expect(text, key).not.to.match(/[\u3400-\u9fff]/)
    for (const [key, text] of Object.entries(zh)) expect(text, key).not.to.match(/[A-Za-z]{3,} [a-z]{3,} [a-z]{3,}/)
  })

  it('contain a name for every action of the audit log', () => {
    const audited = gateway.api.routes.flatMap(({ audit }) => (typeof audit === 'string' ? [audit] : []))
    const elsewhere = ['console.open', 'console.close', 'account.setup', 'admin.recover', 'session.end']
    expect(audited.length).to.be.greaterThan(50)
    for (const action of [...audited, ...elsewhere]) expect(en, action).to.have.property(`change.${action}`)
  })

  it('translate the warnings of agents, also if the gateway has shortened them', async () => {
    const { agentText } = (await import(moduleUrl('panel/src/i18n/zh/index.ts'))) as {
      agentText: (text: string) => string
    }
    const gib = 1024 ** 3
    const pool = [{ address: '203.0.113.7', interface: 'eth1', prefixLength: 24, gateway: '203.0.113.1' }] as never
    const warnings = [
      ...describeCgroups({ version: 1 } as never),
      ...describeThrottling(undefined),
      ...planRoomWarnings({ totalBytes: 100 * gib, usedBytes: 93 * gib }),
      ...planRoomWarnings({ totalBytes: 100 * gib, usedBytes: 99.9 * gib }),
      describeDropping({ family: 'inet', table: 'filter', chain: 'FORWARD' }, 'berth0'),
      ...describeLegacy('ip6tables', 'filter\nnat\n', 'berth0'),
      describeBridgeFilter('net.bridge.bridge-nf-call-iptables'),
      ...planPoolWarnings(pool, ['eth7'], undefined),
      ...planPoolWarnings(pool, [], { interface: 'eth0', gateway: '192.0.2.1' }),
      ...describeUnserved(new Set(['192.0.2.9']), () => []),
      ...describeMissing([{ interface: 'eth9' }] as never, []),
    ]
    expect(warnings).to.have.length(12)
    for (const warning of warnings) {
      const shortened = warning.slice(0, 300)
      expect(agentText(shortened), shortened).to.match(/[\u3400-\u9fff]/)
      expect(agentText(shortened), shortened).not.to.match(/[A-Za-z]{3,} [a-z]{3,} [a-z]{3,}|\$\d/)
    }
  })

  it('explain every rule of a field that users fill in', () => {
    const keys = new Set(Object.keys(en))
    const rules = [...patternRules.map(({ name }) => name), 'required', 'not_empty', 'one_of', 'range', 'ssh_password']
    const notTyped = ['session_id', 'base64url']
    expect(rules.length).to.be.greaterThan(20)
    expect(rules.filter((name) => !keys.has(`error.rule.${name}`) && !notTyped.includes(name))).to.deep.equal([])
  })

  it('explain every error code of the OpenAPI document', () => {
    const codes = new Set<string>()
    const visit = (node: unknown): void => {
      if (typeof node !== 'object' || node === null) return
      for (const code of (node as { 'x-codes'?: string[] })['x-codes'] ?? []) codes.add(code)
      for (const inner of Object.values(node)) visit(inner)
    }
    visit(gateway.api.document)
    expect(codes.size).to.be.greaterThan(20)
    expect([...codes].filter((code) => !(`error.${code}` in en))).to.deep.equal([])
  })
})
