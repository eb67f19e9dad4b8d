import { expect } from 'chai'
import { ApiFailure } from '../api/failure.ts'
import { planCodeText, planFieldLabel, planRuleText, type FindText } from './plan-failure-text.ts'

const known: Readonly<Record<string, string>> = {
  'error.invalid_field': 'Not allowed.',
  'error.host_offline': 'Offline.',
  'error.rule.range': 'From {{min}} to {{max}}.',
  'guest.name': 'Name',
  'limits.ram_mb': 'Memory',
}
const find: FindText = (key, fallback, values = {}) =>
  known[key]?.replace(/\{\{(\w+)\}\}/g, (_, name: string) => String(values[name])) ?? fallback
const refused = (rule?: string) =>
  new ApiFailure('invalid_field', 'vcpu: must be from 1 to 8', {
    field: 'vcpu',
    ...(rule && { rule, values: { min: 1, max: 8 } }),
  })

describe('the text of a refused request', () => {
  it('has the limits of the rule', () => expect(planRuleText(refused('range'), find)).to.equal('From 1 to 8.'))
  it('is the text of the code if the rule has no text', () => expect(planRuleText(refused('new'), find)).to.equal(''))
  it('is the text of the code if there is no rule', () => expect(planRuleText(refused(), find)).to.equal(''))

  for (const [name, failure, language, text] of [
    ['is the message for a vague code on English pages', refused(), 'en', 'vcpu: must be from 1 to 8'],
    ['contains both on other pages', refused(), 'zh', 'Not allowed.（vcpu: must be from 1 to 8）'],
    ['is that of the code if it is clear', new ApiFailure('host_offline', 'away'), 'en', 'Offline.'],
    ['is the message if the code has no text', new ApiFailure('new_code', 'new'), 'zh', 'new'],
  ] as const)
    it(name, () => expect(planCodeText(failure, find, language)).to.equal(text))

  for (const [name, field, label] of [
    ['a field', 'name', 'Name'],
    ['a limit', 'ram_mb', 'Memory'],
    ['an entry of a list', 'containers.0.name', 'Name'],
    ['an entry that has no name', 'name.3', 'Name'],
    ['a field without a label', 'begin', 'begin'],
  ] as const)
    it(`names ${name}`, () => expect(planFieldLabel(field, find)).to.equal(label))
})
