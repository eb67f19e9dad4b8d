import { texts } from '../i18n/text.svelte.ts'
import { planDetail } from './plan-detail.ts'

/** Describes the details of an entry of the audit log or a timeline in the language of the page. */
export function detailText(detail: string, success: boolean): string {
  return planDetail({ detail, success }, (key, fallback, values) => texts.find(key, fallback, values))
}
