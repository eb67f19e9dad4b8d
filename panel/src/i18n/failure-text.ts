import type { ApiFailure } from '../api/failure.ts'
import { planCodeText, planFieldLabel, planRuleText, type FindText } from './plan-failure-text.ts'
import { t, texts } from './text.svelte.ts'

const find: FindText = (key, fallback, values) => texts.find(key, fallback, values)

/** Describes a failure in the language of the page, with the name of the field that was refused. */
export function failureText(failure: ApiFailure): string {
  const { field, retryAfterSeconds: seconds } = failure.about
  if (failure.code === 'rate_limited' && seconds !== undefined) return t('error.wait', { seconds })
  const text = planRuleText(failure, find)
  if (text === '') return planCodeText(failure, find, texts.language)
  return field === undefined ? text : t('error.inField', { field: fieldLabel(field), text })
}

/** Describes a failure next to the field that was refused. */
export function fieldFailureText(failure: ApiFailure): string {
  const text = planRuleText(failure, find)
  return text === '' ? failureText(failure) : text
}

/** Label of a field of the API, or the field's own name. */
export function fieldLabel(field: string): string {
  return planFieldLabel(field, find)
}
