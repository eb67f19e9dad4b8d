import type { ApiFailure } from '../api/failure.ts'
import { t, texts } from './text.svelte.ts'

/** Describes a failure in the language of the page. The text follows from the error code. */
export function failureText({ code, message, about }: ApiFailure): string {
  const said = texts.find(`error.${code}`, message)
  if (code === 'rate_limited' && about.retryAfterSeconds !== undefined)
    return t('error.wait', { seconds: about.retryAfterSeconds })
  // For vague codes, only the server's message explains the error. It is English, so only English pages show it.
  return vague.has(code) && texts.language === 'en' ? message : said
}

const vague: ReadonlySet<string> = new Set([
  'invalid_field',
  'invalid_request',
  'invalid_state',
  'missing_field',
  'offline_required',
  'unsupported',
])
